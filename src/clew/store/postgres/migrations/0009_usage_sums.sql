-- What turns have spent, summed up as it is recorded: by quarter-hour, and by UTC day for each model,
-- platform and session; `whole` is all of a session. Every change of a turn leaves a row in
-- usage_changes, in the same commit: no two sessions wait for each other's sums. About every 256th
-- adds them to the sums, one transaction at a time; until then readers add them. `unknown` turns have
-- a cost that is not known; `estimated` ones are of sessions whose metadata says so. A sum may be more
-- than a bigint holds, and the commit does not fail for it.
CREATE TABLE usage_sums (
  at                    BIGINT NOT NULL,
  turns                 BIGINT NOT NULL,
  unknown               BIGINT NOT NULL,
  estimated             BIGINT NOT NULL,
  kind                  TEXT COLLATE "C" NOT NULL,
  name                  TEXT COLLATE "C" NOT NULL,
  input_tokens          NUMERIC NOT NULL,
  output_tokens         NUMERIC NOT NULL,
  cache_read_tokens     NUMERIC NOT NULL,
  cache_creation_tokens NUMERIC NOT NULL,
  cost                  NUMERIC NOT NULL,
  api_calls             NUMERIC NOT NULL,
  PRIMARY KEY (kind, at, name)
);
-- The sessions that cost most come first.
CREATE INDEX usage_rank ON usage_sums
  (kind, (unknown > 0), (CASE WHEN unknown > 0 THEN 0 ELSE cost END) DESC,
   (input_tokens + output_tokens) DESC, name)
  WHERE kind = 'whole' AND turns > 0;
CREATE INDEX usage_nothing ON usage_sums (turns) WHERE turns = 0;

CREATE TABLE usage_changes (
  id                    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at                    BIGINT NOT NULL,
  input_tokens          BIGINT NOT NULL,
  output_tokens         BIGINT NOT NULL,
  cache_read_tokens     BIGINT NOT NULL,
  cache_creation_tokens BIGINT NOT NULL,
  cost                  BIGINT NOT NULL,
  api_calls             BIGINT NOT NULL,
  turns                 BIGINT NOT NULL,
  unknown               BIGINT NOT NULL,
  estimated             BIGINT NOT NULL,
  session_id            TEXT COLLATE "C" NOT NULL,
  model                 TEXT COLLATE "C" NOT NULL,
  platform              TEXT COLLATE "C" NOT NULL
);

-- A turn as a change.
CREATE VIEW usage_turns AS
  SELECT t.started_at AS at, t.session_id, coalesce(t.model, '') AS model,
         coalesce(s.platform, '') AS platform, t.input_tokens, t.output_tokens,
         t.cache_read_tokens, t.cache_creation_tokens, coalesce(t.cost, 0) AS cost, t.api_calls,
         1::bigint AS turns, (t.cost IS NULL)::int::bigint AS unknown,
         coalesce(s.metadata LIKE '%"estimated":true%', false)::int::bigint AS estimated
  FROM turns t LEFT JOIN sessions s ON s.id = t.session_id;

CREATE FUNCTION clew_add_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  -- Whoever comes while another adds leaves it to the next.
  IF NOT pg_try_advisory_xact_lock(x'636C657700000002'::bigint) THEN
    RETURN NULL;
  END IF;
  WITH gone AS (DELETE FROM usage_changes RETURNING *),
  changes AS (
    SELECT *, at - (at % 900000 + 900000) % 900000 AS quarter,
           at - (at % 86400000 + 86400000) % 86400000 AS day FROM gone)
  INSERT INTO usage_sums (kind, at, name, input_tokens, output_tokens, cache_read_tokens,
      cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT k.kind, k.at, k.name, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens),
      sum(cache_creation_tokens), sum(cost), sum(api_calls), sum(turns)::bigint,
      sum(unknown)::bigint, sum(estimated)::bigint
    FROM changes c CROSS JOIN LATERAL (VALUES
      ('day', c.quarter, c.quarter::text COLLATE "C"), ('model', c.day, c.model),
      ('platform', c.day, c.platform), ('session', c.day, c.session_id),
      ('whole', 0, c.session_id)) AS k (kind, at, name)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (kind, at, name) DO UPDATE SET
      input_tokens = usage_sums.input_tokens + excluded.input_tokens,
      output_tokens = usage_sums.output_tokens + excluded.output_tokens,
      cache_read_tokens = usage_sums.cache_read_tokens + excluded.cache_read_tokens,
      cache_creation_tokens = usage_sums.cache_creation_tokens + excluded.cache_creation_tokens,
      cost = usage_sums.cost + excluded.cost, api_calls = usage_sums.api_calls + excluded.api_calls,
      turns = usage_sums.turns + excluded.turns, unknown = usage_sums.unknown + excluded.unknown,
      estimated = usage_sums.estimated + excluded.estimated;
  DELETE FROM usage_sums WHERE turns = 0;
  RETURN NULL;
END
$$;
CREATE TRIGGER usage_changes_ai AFTER INSERT ON usage_changes FOR EACH ROW
  WHEN (new.id % 256 = 0) EXECUTE FUNCTION clew_add_usage();

CREATE FUNCTION clew_note_usage() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  sign BIGINT := CASE tg_op WHEN 'DELETE' THEN -1 ELSE 1 END;
  turn turns := CASE tg_op WHEN 'DELETE' THEN old ELSE new END;
  was turns;
BEGIN
  IF tg_op = 'UPDATE' THEN
    was := old;
  END IF;
  INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
      cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT turn.started_at, turn.session_id, coalesce(turn.model, ''), s.platform,
      sign * turn.input_tokens - coalesce(was.input_tokens, 0),
      sign * turn.output_tokens - coalesce(was.output_tokens, 0),
      sign * turn.cache_read_tokens - coalesce(was.cache_read_tokens, 0),
      sign * turn.cache_creation_tokens - coalesce(was.cache_creation_tokens, 0),
      sign * coalesce(turn.cost, 0) - coalesce(was.cost, 0),
      sign * turn.api_calls - coalesce(was.api_calls, 0),
      CASE tg_op WHEN 'UPDATE' THEN 0 ELSE sign END,
      sign * (turn.cost IS NULL)::int - (tg_op = 'UPDATE' AND was.cost IS NULL)::int,
      CASE WHEN tg_op = 'UPDATE' OR s.metadata NOT LIKE '%"estimated":true%' THEN 0 ELSE sign END
    FROM sessions s WHERE s.id = turn.session_id;
  RETURN NULL;
END
$$;
CREATE TRIGGER turns_noted AFTER INSERT OR DELETE ON turns
  FOR EACH ROW EXECUTE FUNCTION clew_note_usage();
CREATE TRIGGER turns_spent AFTER UPDATE OF input_tokens, output_tokens, cache_read_tokens,
    cache_creation_tokens, cost, api_calls ON turns
  FOR EACH ROW EXECUTE FUNCTION clew_note_usage();

-- Turns go before their session, as long as its platform is known.
CREATE FUNCTION clew_remove_turns() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM turns WHERE session_id = old.id;
  RETURN old;
END
$$;
CREATE TRIGGER sessions_removed BEFORE DELETE ON sessions
  FOR EACH ROW EXECUTE FUNCTION clew_remove_turns();

CREATE FUNCTION clew_move_usage() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
      cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT at, session_id, model, old.platform, -input_tokens, -output_tokens, -cache_read_tokens,
      -cache_creation_tokens, -cost, -api_calls, -turns, -unknown,
      -(old.metadata LIKE '%"estimated":true%')::int
    FROM usage_turns WHERE session_id = old.id
    UNION ALL
    SELECT * FROM usage_turns WHERE session_id = old.id;
  RETURN NULL;
END
$$;
CREATE TRIGGER sessions_estimated AFTER UPDATE OF platform, metadata ON sessions FOR EACH ROW
  WHEN (old.platform <> new.platform
    OR (old.metadata LIKE '%"estimated":true%') <> (new.metadata LIKE '%"estimated":true%'))
  EXECUTE FUNCTION clew_move_usage();

INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
    cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
  SELECT * FROM usage_turns;
