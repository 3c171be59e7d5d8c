-- What turns have spent, summed up as it is recorded: by quarter-hour, and by UTC day for each model,
-- platform and session; `whole` is all of a session. Every change of a turn leaves a row in
-- usage_changes, in the same commit. When there are 256, they are added to the sums; until then
-- readers add them. `unknown` turns have a cost that is not known; `estimated` ones are of sessions
-- whose metadata says so. Numbers are of any type: a sum that no integer can hold becomes a
-- fraction, and the commit does not fail for it.
CREATE TABLE usage_sums (
  kind                  TEXT NOT NULL,
  at                    INTEGER NOT NULL,
  name                  TEXT NOT NULL,
  input_tokens          ANY NOT NULL,
  output_tokens         ANY NOT NULL,
  cache_read_tokens     ANY NOT NULL,
  cache_creation_tokens ANY NOT NULL,
  cost                  ANY NOT NULL,
  api_calls             ANY NOT NULL,
  turns                 INTEGER NOT NULL,
  unknown               INTEGER NOT NULL,
  estimated             INTEGER NOT NULL,
  PRIMARY KEY (kind, at, name)
) STRICT, WITHOUT ROWID;
-- The sessions that cost most come first.
CREATE INDEX usage_rank ON usage_sums
  (kind, (unknown > 0), (CASE WHEN unknown > 0 THEN 0 ELSE cost END) DESC,
   (input_tokens + output_tokens) DESC, name)
  WHERE kind = 'whole' AND turns > 0;
CREATE INDEX usage_nothing ON usage_sums (turns) WHERE turns = 0;

CREATE TABLE usage_changes (
  id                    INTEGER PRIMARY KEY,
  at                    INTEGER NOT NULL,
  session_id            TEXT NOT NULL,
  model                 TEXT NOT NULL,
  platform              TEXT NOT NULL,
  input_tokens          INTEGER NOT NULL,
  output_tokens         INTEGER NOT NULL,
  cache_read_tokens     INTEGER NOT NULL,
  cache_creation_tokens INTEGER NOT NULL,
  cost                  INTEGER NOT NULL,
  api_calls             INTEGER NOT NULL,
  turns                 INTEGER NOT NULL,
  unknown               INTEGER NOT NULL,
  estimated             INTEGER NOT NULL
) STRICT;

-- What a change adds to which sums.
CREATE VIEW usage_changed AS
  SELECT k.kind, CASE k.kind WHEN 'day' THEN c.quarter WHEN 'whole' THEN 0 ELSE c.day END AS at,
         CASE k.kind WHEN 'day' THEN CAST(c.quarter AS TEXT) WHEN 'model' THEN c.model
              WHEN 'platform' THEN c.platform ELSE c.session_id END AS name,
         c.input_tokens, c.output_tokens, c.cache_read_tokens, c.cache_creation_tokens, c.cost,
         c.api_calls, c.turns, c.unknown, c.estimated
  FROM (SELECT *, at - (at % 900000 + 900000) % 900000 AS quarter,
               at - (at % 86400000 + 86400000) % 86400000 AS day FROM usage_changes) c
  CROSS JOIN (SELECT 'day' AS kind UNION ALL SELECT 'model' UNION ALL SELECT 'platform'
              UNION ALL SELECT 'session' UNION ALL SELECT 'whole') k;

CREATE TRIGGER usage_changes_ai AFTER INSERT ON usage_changes WHEN new.id % 256 = 0 BEGIN
  INSERT INTO usage_sums SELECT * FROM usage_changed WHERE true
    ON CONFLICT (kind, at, name) DO UPDATE SET
      input_tokens = input_tokens + excluded.input_tokens,
      output_tokens = output_tokens + excluded.output_tokens,
      cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens,
      cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens,
      cost = cost + excluded.cost, api_calls = api_calls + excluded.api_calls,
      turns = turns + excluded.turns, unknown = unknown + excluded.unknown,
      estimated = estimated + excluded.estimated;
  DELETE FROM usage_sums WHERE turns = 0;
  DELETE FROM usage_changes;
END;

-- A turn as a change.
CREATE VIEW usage_turns AS
  SELECT t.started_at AS at, t.session_id, coalesce(t.model, '') AS model,
         coalesce(s.platform, '') AS platform, t.input_tokens, t.output_tokens,
         t.cache_read_tokens, t.cache_creation_tokens, coalesce(t.cost, 0) AS cost, t.api_calls,
         1 AS turns, t.cost IS NULL AS unknown,
         coalesce(s.metadata LIKE '%"estimated":true%', 0) AS estimated
  FROM turns t LEFT JOIN sessions s ON s.id = t.session_id;

CREATE TRIGGER turns_ai AFTER INSERT ON turns BEGIN
  INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
      cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT new.started_at, new.session_id, coalesce(new.model, ''), platform, new.input_tokens,
      new.output_tokens, new.cache_read_tokens, new.cache_creation_tokens, coalesce(new.cost, 0),
      new.api_calls, 1, new.cost IS NULL, metadata LIKE '%"estimated":true%'
    FROM sessions WHERE id = new.session_id;
END;
CREATE TRIGGER turns_au AFTER UPDATE OF input_tokens, output_tokens, cache_read_tokens,
    cache_creation_tokens, cost, api_calls ON turns BEGIN
  INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
      cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT old.started_at, old.session_id, coalesce(old.model, ''), platform,
      new.input_tokens - old.input_tokens, new.output_tokens - old.output_tokens,
      new.cache_read_tokens - old.cache_read_tokens,
      new.cache_creation_tokens - old.cache_creation_tokens,
      coalesce(new.cost, 0) - coalesce(old.cost, 0), new.api_calls - old.api_calls, 0,
      (new.cost IS NULL) - (old.cost IS NULL), 0
    FROM sessions WHERE id = old.session_id;
END;
CREATE TRIGGER turns_ad AFTER DELETE ON turns BEGIN
  INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
      cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT old.started_at, old.session_id, coalesce(old.model, ''), platform, -old.input_tokens,
      -old.output_tokens, -old.cache_read_tokens, -old.cache_creation_tokens,
      -coalesce(old.cost, 0), -old.api_calls, -1, -(old.cost IS NULL),
      -(metadata LIKE '%"estimated":true%')
    FROM sessions WHERE id = old.session_id;
END;
-- Turns go before their session, as long as its platform is known.
CREATE TRIGGER sessions_bd BEFORE DELETE ON sessions BEGIN
  DELETE FROM turns WHERE session_id = old.id;
END;
CREATE TRIGGER sessions_estimated AFTER UPDATE OF platform, metadata ON sessions
  WHEN old.platform <> new.platform
    OR (old.metadata LIKE '%"estimated":true%') <> (new.metadata LIKE '%"estimated":true%') BEGIN
  INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
      cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
    SELECT at, session_id, model, old.platform, -input_tokens, -output_tokens, -cache_read_tokens,
      -cache_creation_tokens, -cost, -api_calls, -turns, -unknown,
      -(old.metadata LIKE '%"estimated":true%')
    FROM usage_turns WHERE session_id = old.id
    UNION ALL
    SELECT * FROM usage_turns WHERE session_id = old.id;
END;

INSERT INTO usage_changes (at, session_id, model, platform, input_tokens, output_tokens,
    cache_read_tokens, cache_creation_tokens, cost, api_calls, turns, unknown, estimated)
  SELECT * FROM usage_turns;
