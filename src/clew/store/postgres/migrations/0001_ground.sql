-- The ground: sessions, messages, their search, and everything that hangs on them.
-- Times are milliseconds UTC, money is nano-dollars. v_sessions and v_messages are for people.
-- Tables and columns are called as in SQLite. Text is compared byte by byte (COLLATE "C"), JSON is
-- kept as the text that it was. `ordinal` tells in which order rows were made.

-- Who has the store open. `lock` is an advisory lock that the process holds on a connection of its
-- own: while it is held the process lives, whatever this row says.
CREATE TABLE processes (
  process    TEXT COLLATE "C" PRIMARY KEY,
  host       TEXT COLLATE "C" NOT NULL,
  pid        BIGINT NOT NULL,
  version    TEXT COLLATE "C" NOT NULL,
  command    TEXT COLLATE "C" NOT NULL,
  started_at BIGINT NOT NULL,
  lock       BIGINT NOT NULL
);

CREATE TABLE sessions (
  id                    TEXT COLLATE "C" PRIMARY KEY,
  key                   TEXT COLLATE "C" NOT NULL,
  agent                 TEXT COLLATE "C" NOT NULL,
  person                TEXT COLLATE "C" NOT NULL,
  platform              TEXT COLLATE "C" NOT NULL,
  kind                  TEXT COLLATE "C" NOT NULL CHECK (kind IN ('main', 'dm', 'group', 'channel', 'thread',
                          'cron', 'hook', 'node', 'cli', 'web', 'sdk', 'subagent')),
  title                 TEXT COLLATE "C",
  title_key             TEXT COLLATE "C",
  title_by              TEXT COLLATE "C" CHECK (title_by IN ('user', 'auto')),
  revision              BIGINT NOT NULL DEFAULT 1,
  cwd                   TEXT COLLATE "C",
  project               TEXT COLLATE "C",
  model                 TEXT COLLATE "C",
  provider              TEXT COLLATE "C",
  personality           TEXT COLLATE "C",
  thinking              TEXT COLLATE "C",
  service_tier          TEXT COLLATE "C",
  mode                  TEXT COLLATE "C",
  parent_id             TEXT COLLATE "C" REFERENCES sessions (id),
  forked_at_seq         BIGINT,
  display_name          TEXT COLLATE "C",
  channel               TEXT COLLATE "C",
  subject               TEXT COLLATE "C",
  room                  TEXT COLLATE "C",
  space                 TEXT COLLATE "C",
  origin                TEXT COLLATE "C" NOT NULL DEFAULT '{}',
  last_route            TEXT COLLATE "C",
  short_summary         TEXT COLLATE "C",
  send_policy           TEXT COLLATE "C" CHECK (send_policy IN ('allow', 'deny')),
  pinned                BOOLEAN NOT NULL DEFAULT false,
  input_tokens          BIGINT NOT NULL DEFAULT 0,
  output_tokens         BIGINT NOT NULL DEFAULT 0,
  cache_read_tokens     BIGINT NOT NULL DEFAULT 0,
  cache_creation_tokens BIGINT NOT NULL DEFAULT 0,
  cost                  BIGINT DEFAULT 0,
  api_calls             BIGINT NOT NULL DEFAULT 0,
  compactions           BIGINT NOT NULL DEFAULT 0,
  context_tokens        BIGINT,
  message_count         BIGINT NOT NULL DEFAULT 0,
  content_bytes         BIGINT NOT NULL DEFAULT 0,
  preview               TEXT COLLATE "C",
  preview_key           TEXT COLLATE "C",
  head                  BIGINT NOT NULL DEFAULT 0,
  created_at            BIGINT NOT NULL,
  updated_at            BIGINT NOT NULL,
  last_interaction_at   BIGINT,
  archived_at           BIGINT,
  deleted_at            BIGINT,
  purged_at             BIGINT,
  reset_reason          TEXT COLLATE "C",
  previous_id           TEXT COLLATE "C",
  transcript_path       TEXT COLLATE "C",
  metadata              TEXT COLLATE "C" NOT NULL DEFAULT '{}'
);

-- One index for each way a list is asked for, in the order in which it is shown; those of archived
-- sessions apart, so that neither is walked through to find the other. content_bytes rides along so
-- that the retention pass adds it up without reading the rows.
CREATE INDEX sessions_listed ON sessions (pinned, updated_at, id) INCLUDE (content_bytes)
  WHERE deleted_at IS NULL AND archived_at IS NULL;
CREATE INDEX sessions_archived ON sessions (pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NOT NULL;
CREATE INDEX sessions_platform ON sessions (platform, pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NULL;
CREATE INDEX sessions_platform_archived ON sessions (platform, pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NOT NULL;
CREATE INDEX sessions_cwd ON sessions (cwd, pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NULL AND cwd IS NOT NULL;
CREATE INDEX sessions_cwd_archived ON sessions (cwd, pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NOT NULL AND cwd IS NOT NULL;
CREATE INDEX sessions_guest ON sessions (person, pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NULL AND person <> 'owner';
CREATE INDEX sessions_guest_archived ON sessions (person, pinned, updated_at, id)
  WHERE deleted_at IS NULL AND archived_at IS NOT NULL AND person <> 'owner';
CREATE INDEX sessions_trash ON sessions (deleted_at, id) WHERE deleted_at IS NOT NULL;
CREATE INDEX sessions_title ON sessions (title_key, updated_at, id)
  WHERE deleted_at IS NULL AND title_key IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE routes (
  key        TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  updated_at BIGINT NOT NULL
);
CREATE INDEX routes_session ON routes (session_id);

CREATE TABLE messages (
  id                    BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  session_id            TEXT COLLATE "C" NOT NULL REFERENCES sessions (id),
  seq                   BIGINT NOT NULL,
  turn_id               TEXT COLLATE "C",
  role                  TEXT COLLATE "C" NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
  content               TEXT COLLATE "C" NOT NULL,
  parts                 TEXT COLLATE "C",
  tool_call_id          TEXT COLLATE "C",
  tool_name             TEXT COLLATE "C",
  tool_calls            TEXT COLLATE "C",
  is_error              BOOLEAN NOT NULL DEFAULT false,
  model                 TEXT COLLATE "C",
  input_tokens          BIGINT,
  output_tokens         BIGINT,
  cache_read_tokens     BIGINT,
  cache_creation_tokens BIGINT,
  cost                  BIGINT,
  api_calls             BIGINT,
  at                    BIGINT NOT NULL
);
CREATE UNIQUE INDEX messages_thread ON messages (session_id, seq);

-- What a search looks at: the stems and pairs of characters that clew itself makes of a message's
-- first 65,536 characters, apart from the messages so that reading a thread never passes over them.
-- `partial` tells that PostgreSQL could not keep every position (at most 16,383, and 256 of one
-- word): there, clew looks for phrases itself.
CREATE TABLE messages_words (
  message_id BIGINT PRIMARY KEY REFERENCES messages (id) ON DELETE CASCADE,
  words      tsvector NOT NULL,
  size       INTEGER NOT NULL,
  partial    BOOLEAN NOT NULL DEFAULT false
);
CREATE INDEX messages_words_index ON messages_words USING gin (words)
  WITH (gin_pending_list_limit = 512);

CREATE TABLE turns (
  id                    TEXT COLLATE "C" PRIMARY KEY,
  session_id            TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  first_seq             BIGINT NOT NULL,
  status                TEXT COLLATE "C" NOT NULL CHECK (status IN ('running', 'waiting', 'done', 'failed',
                          'aborted', 'interrupted')),
  reply_to              TEXT COLLATE "C",
  model                 TEXT COLLATE "C",
  input_tokens          BIGINT NOT NULL DEFAULT 0,
  output_tokens         BIGINT NOT NULL DEFAULT 0,
  cache_read_tokens     BIGINT NOT NULL DEFAULT 0,
  cache_creation_tokens BIGINT NOT NULL DEFAULT 0,
  cost                  BIGINT DEFAULT 0,
  api_calls             BIGINT NOT NULL DEFAULT 0,
  error                 TEXT COLLATE "C",
  partial               TEXT COLLATE "C",
  started_at            BIGINT NOT NULL,
  ended_at              BIGINT,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX turns_session ON turns (session_id, ordinal);
CREATE INDEX turns_unfinished ON turns (session_id) WHERE status IN ('running', 'waiting');

-- Which turns a session passes over. A row of its own, not a mark on the turn: a fork may take
-- back what it inherited, and neither it nor its parent changes the other's thread by that.
CREATE TABLE undone (
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id    TEXT COLLATE "C" NOT NULL,
  undone_at  BIGINT NOT NULL,
  PRIMARY KEY (session_id, turn_id)
);

CREATE TABLE approvals (
  id           TEXT COLLATE "C" PRIMARY KEY,
  session_id   TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id      TEXT COLLATE "C" NOT NULL,
  tool_call_id TEXT COLLATE "C" NOT NULL,
  tool_name    TEXT COLLATE "C" NOT NULL,
  request      TEXT COLLATE "C" NOT NULL,
  asked_at     BIGINT NOT NULL,
  expires_at   BIGINT NOT NULL,
  decision     TEXT COLLATE "C" CHECK (decision IN ('yes', 'no')),
  scope        TEXT COLLATE "C" CHECK (scope IN ('once', 'session', 'always')),
  decided_by   TEXT COLLATE "C",
  decided_at   BIGINT,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX approvals_session ON approvals (session_id);
CREATE INDEX approvals_open ON approvals (asked_at) WHERE decision IS NULL;

CREATE TABLE leases (
  session_id TEXT COLLATE "C" PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  holder     TEXT COLLATE "C",
  epoch      BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);

CREATE TABLE attachments (
  session_id TEXT COLLATE "C" PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  host       TEXT COLLATE "C" NOT NULL,
  process    TEXT COLLATE "C" NOT NULL,
  pid        BIGINT NOT NULL,
  started_at BIGINT NOT NULL,
  terminal   TEXT COLLATE "C",
  since      BIGINT NOT NULL,
  beat_at    BIGINT NOT NULL
);

CREATE TABLE idempotency (
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  key        TEXT COLLATE "C" NOT NULL,
  result     TEXT COLLATE "C" NOT NULL,
  at         BIGINT NOT NULL,
  PRIMARY KEY (session_id, key)
);
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE inbox (
  id          TEXT COLLATE "C" PRIMARY KEY,
  channel     TEXT COLLATE "C" NOT NULL,
  account     TEXT COLLATE "C" NOT NULL,
  external_id TEXT COLLATE "C",
  key         TEXT COLLATE "C" NOT NULL,
  session_id  TEXT COLLATE "C",
  person      TEXT COLLATE "C" NOT NULL,
  payload     TEXT COLLATE "C" NOT NULL,
  status      TEXT COLLATE "C" NOT NULL CHECK (status IN ('queued', 'claimed', 'done', 'dropped')),
  claimant    TEXT COLLATE "C",
  claimed_at  BIGINT,
  turn_id     TEXT COLLATE "C",
  received_at BIGINT NOT NULL,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);
CREATE UNIQUE INDEX inbox_identity ON inbox (channel, account, external_id)
  WHERE external_id IS NOT NULL;
CREATE INDEX inbox_open ON inbox (status, session_id) WHERE status IN ('queued', 'claimed');

CREATE TABLE outbox (
  id         TEXT COLLATE "C" PRIMARY KEY,
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  key        TEXT COLLATE "C" NOT NULL,
  channel    TEXT COLLATE "C" NOT NULL,
  address    TEXT COLLATE "C" NOT NULL,
  content    TEXT COLLATE "C" NOT NULL,
  turn_id    TEXT COLLATE "C",
  seq        BIGINT,
  status     TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'uncertain', 'failed',
               'withheld')),
  attempts   BIGINT NOT NULL DEFAULT 0,
  due_at     BIGINT NOT NULL,
  claimant   TEXT COLLATE "C",
  claimed_at BIGINT,
  receipt    TEXT COLLATE "C",
  error      TEXT COLLATE "C",
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX outbox_open ON outbox (key) WHERE status IN ('pending', 'sending', 'uncertain');
CREATE INDEX outbox_session ON outbox (session_id, ordinal);
CREATE INDEX outbox_newest ON outbox (ordinal);

CREATE TABLE tokens (
  id         TEXT COLLATE "C" PRIMARY KEY,
  name       TEXT COLLATE "C" NOT NULL,
  person     TEXT COLLATE "C" NOT NULL,
  scope      TEXT COLLATE "C" NOT NULL CHECK (scope IN ('read', 'chat', 'write', 'admin')),
  digest     BYTEA NOT NULL UNIQUE,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);

CREATE TABLE compactions (
  id            TEXT COLLATE "C" PRIMARY KEY,
  session_id    TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  keep_from     BIGINT NOT NULL,
  made_at_seq   BIGINT NOT NULL,
  summary       TEXT COLLATE "C" NOT NULL,
  short_summary TEXT COLLATE "C",
  tokens_before BIGINT,
  tokens_after  BIGINT,
  created_at    BIGINT NOT NULL,
  undone_at     BIGINT,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX compactions_session ON compactions (session_id, made_at_seq, ordinal);

CREATE TABLE scratchpad (
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  name       TEXT COLLATE "C" NOT NULL,
  content    TEXT COLLATE "C" NOT NULL,
  size       BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (session_id, name)
);

CREATE TABLE todos (
  session_id TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  position   BIGINT NOT NULL,
  text       TEXT COLLATE "C" NOT NULL,
  status     TEXT COLLATE "C" NOT NULL CHECK (status IN ('pending', 'in_progress', 'done', 'cancelled')),
  PRIMARY KEY (session_id, position)
);

CREATE TABLE blobs (
  hash       TEXT COLLATE "C" PRIMARY KEY,
  media_type TEXT COLLATE "C" NOT NULL,
  data       BYTEA NOT NULL,
  created_at BIGINT NOT NULL
);
CREATE TABLE message_blobs (
  message_id BIGINT NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  hash       TEXT COLLATE "C" NOT NULL REFERENCES blobs (hash),
  PRIMARY KEY (message_id, hash)
);
CREATE INDEX message_blobs_hash ON message_blobs (hash);

-- For people with psql.
CREATE VIEW v_sessions AS
  SELECT id, key, platform, person, coalesce(title, short_summary, preview) AS name,
         message_count AS messages, cwd, model,
         to_timestamp(created_at / 1000.0) AS created, to_timestamp(updated_at / 1000.0) AS updated,
         CASE WHEN deleted_at IS NOT NULL THEN 'trash'
              WHEN archived_at IS NOT NULL THEN 'archived' ELSE 'active' END AS state,
         input_tokens, output_tokens, cost / 1e9 AS cost_usd
  FROM sessions WHERE purged_at IS NULL;
CREATE VIEW v_messages AS
  SELECT m.session_id, m.seq, to_timestamp(m.at / 1000.0) AS at, m.role,
         coalesce(m.tool_name, '') AS tool, m.content
  FROM messages m;
