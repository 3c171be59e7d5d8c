-- The ground: sessions, messages, their search, and everything that hangs on them.
-- Times are milliseconds UTC, money is nano-dollars. v_sessions and v_messages are for people.

CREATE TABLE sessions (
  id                    TEXT PRIMARY KEY,
  key                   TEXT NOT NULL,
  agent                 TEXT NOT NULL,
  person                TEXT NOT NULL,
  platform              TEXT NOT NULL,
  kind                  TEXT NOT NULL CHECK (kind IN ('main', 'dm', 'group', 'channel', 'thread',
                          'cron', 'hook', 'node', 'cli', 'web', 'sdk', 'subagent')),
  title                 TEXT,
  title_key             TEXT,
  title_by              TEXT CHECK (title_by IN ('user', 'auto')),
  revision              INTEGER NOT NULL DEFAULT 1,
  cwd                   TEXT,
  project               TEXT,
  model                 TEXT,
  provider              TEXT,
  personality           TEXT,
  thinking              TEXT,
  service_tier          TEXT,
  mode                  TEXT,
  parent_id             TEXT REFERENCES sessions (id),
  forked_at_seq         INTEGER,
  display_name          TEXT,
  channel               TEXT,
  subject               TEXT,
  room                  TEXT,
  space                 TEXT,
  origin                TEXT NOT NULL DEFAULT '{}',
  last_route            TEXT,
  short_summary         TEXT,
  send_policy           TEXT CHECK (send_policy IN ('allow', 'deny')),
  pinned                INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1)),
  input_tokens          INTEGER NOT NULL DEFAULT 0,
  output_tokens         INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens     INTEGER NOT NULL DEFAULT 0,
  cache_creation_tokens INTEGER NOT NULL DEFAULT 0,
  cost                  INTEGER DEFAULT 0,
  api_calls             INTEGER NOT NULL DEFAULT 0,
  compactions           INTEGER NOT NULL DEFAULT 0,
  context_tokens        INTEGER,
  message_count         INTEGER NOT NULL DEFAULT 0,
  content_bytes         INTEGER NOT NULL DEFAULT 0,
  preview               TEXT,
  head                  INTEGER NOT NULL DEFAULT 0,
  created_at            INTEGER NOT NULL,
  updated_at            INTEGER NOT NULL,
  last_interaction_at   INTEGER,
  archived_at           INTEGER,
  deleted_at            INTEGER,
  purged_at             INTEGER,
  reset_reason          TEXT,
  previous_id           TEXT,
  transcript_path       TEXT,
  metadata              TEXT NOT NULL DEFAULT '{}'
) STRICT;

-- One index for each way a list is asked for, in the order in which it is shown: archived sessions
-- behind the others, so that neither is walked through to find the other. content_bytes rides along
-- so that the retention pass adds it up without reading the rows.
CREATE INDEX sessions_listed
  ON sessions ((archived_at IS NOT NULL), pinned, updated_at, id, content_bytes)
  WHERE deleted_at IS NULL;
CREATE INDEX sessions_platform
  ON sessions (platform, (archived_at IS NOT NULL), pinned, updated_at, id)
  WHERE deleted_at IS NULL;
CREATE INDEX sessions_cwd
  ON sessions (cwd, (archived_at IS NOT NULL), pinned, updated_at, id)
  WHERE deleted_at IS NULL;
CREATE INDEX sessions_guest
  ON sessions (person, (archived_at IS NOT NULL), pinned, updated_at, id)
  WHERE deleted_at IS NULL AND person <> 'owner';
CREATE INDEX sessions_trash ON sessions (deleted_at, id) WHERE deleted_at IS NOT NULL;
CREATE INDEX sessions_title ON sessions (title_key, updated_at, id)
  WHERE deleted_at IS NULL AND title_key IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE routes (
  key        TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX routes_session ON routes (session_id);

CREATE TABLE messages (
  id                    INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id            TEXT NOT NULL REFERENCES sessions (id),
  seq                   INTEGER NOT NULL,
  turn_id               TEXT,
  role                  TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
  content               TEXT NOT NULL,
  parts                 TEXT,
  tool_call_id          TEXT,
  tool_name             TEXT,
  tool_calls            TEXT,
  is_error              INTEGER NOT NULL DEFAULT 0 CHECK (is_error IN (0, 1)),
  model                 TEXT,
  input_tokens          INTEGER,
  output_tokens         INTEGER,
  cache_read_tokens     INTEGER,
  cache_creation_tokens INTEGER,
  cost                  INTEGER,
  api_calls             INTEGER,
  at                    INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX messages_thread ON messages (session_id, seq);

-- What the index sees of a message: its first 65,536 characters.
CREATE VIEW messages_indexed AS SELECT id, substr(content, 1, 65536) AS content FROM messages;

CREATE VIRTUAL TABLE messages_fts USING fts5 (
  content, content = 'messages_indexed', content_rowid = 'id',
  tokenize = 'porter unicode61 remove_diacritics 2', prefix = '2 3'
);

-- Scripts without spaces: clew itself splits those messages into pairs of characters. A trigger
-- can only say which ones wait for it; the writer empties the queue before it commits.
CREATE VIRTUAL TABLE messages_spaceless USING fts5 (
  tokens, content = '', contentless_delete = 1, prefix = '1', tokenize = 'porter ascii'
);
-- Merging is done by clew's writer in bounded steps, not by whoever happens to append.
INSERT INTO messages_fts (messages_fts, rank) VALUES ('automerge', 0);
INSERT INTO messages_spaceless (messages_spaceless, rank) VALUES ('automerge', 0);
CREATE TABLE spaceless_queue (message_id INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER messages_ai AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, content) VALUES (new.id, substr(new.content, 1, 65536));
  INSERT OR IGNORE INTO spaceless_queue (message_id) SELECT new.id
    WHERE length(new.content) < length(CAST(new.content AS BLOB))
      AND substr(new.content, 1, 65536) GLOB '*[ก-ฺเ-๎๐-๙ກ-ໟက-၉ၐ-ႝᄀ-ᇿក-៓ៗៜ៝០-៩⺀-⿕々-〇〡-〯〱-〵〸-〼ぁ-゚ゝ-ゟァ-ヺー-ヿㄅ-ㄯㄱ-ㆎㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿ꥠ-ꥼꧠ-ꧾꩠ-ꩶꩺ-ꩿ가-ퟻ豈-﫿𚿰-𛅯𠀀-𿿿〶゛゜㆐-㆟㈀-㏿ｦ-ￜ🈀-🉥]*';
END;
CREATE TRIGGER messages_ad AFTER DELETE ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, content)
    VALUES ('delete', old.id, substr(old.content, 1, 65536));
  INSERT OR IGNORE INTO spaceless_queue (message_id) SELECT old.id
    WHERE length(old.content) < length(CAST(old.content AS BLOB))
      AND substr(old.content, 1, 65536) GLOB '*[ก-ฺเ-๎๐-๙ກ-ໟက-၉ၐ-ႝᄀ-ᇿក-៓ៗៜ៝០-៩⺀-⿕々-〇〡-〯〱-〵〸-〼ぁ-゚ゝ-ゟァ-ヺー-ヿㄅ-ㄯㄱ-ㆎㆠ-ㆿㇰ-ㇿ㐀-䶿一-鿿ꥠ-ꥼꧠ-ꧾꩠ-ꩶꩺ-ꩿ가-ퟻ豈-﫿𚿰-𛅯𠀀-𿿿〶゛゜㆐-㆟㈀-㏿ｦ-ￜ🈀-🉥]*';
END;
CREATE TRIGGER messages_au AFTER UPDATE OF id, content ON messages BEGIN
  INSERT INTO messages_fts (messages_fts, rowid, content)
    VALUES ('delete', old.id, substr(old.content, 1, 65536));
  INSERT INTO messages_fts (rowid, content) VALUES (new.id, substr(new.content, 1, 65536));
  INSERT OR IGNORE INTO spaceless_queue (message_id) VALUES (old.id), (new.id);
END;

CREATE TABLE turns (
  id                    TEXT PRIMARY KEY,
  session_id            TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  first_seq             INTEGER NOT NULL,
  status                TEXT NOT NULL CHECK (status IN ('running', 'waiting', 'done', 'failed',
                          'aborted', 'interrupted')),
  reply_to              TEXT,
  model                 TEXT,
  input_tokens          INTEGER NOT NULL DEFAULT 0,
  output_tokens         INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens     INTEGER NOT NULL DEFAULT 0,
  cache_creation_tokens INTEGER NOT NULL DEFAULT 0,
  cost                  INTEGER DEFAULT 0,
  api_calls             INTEGER NOT NULL DEFAULT 0,
  error                 TEXT,
  partial               TEXT,
  started_at            INTEGER NOT NULL,
  ended_at              INTEGER
) STRICT;
CREATE INDEX turns_session ON turns (session_id);
CREATE INDEX turns_unfinished ON turns (session_id) WHERE status IN ('running', 'waiting');

-- Which turns a session passes over. A row of its own, not a mark on the turn: a fork may take
-- back what it inherited, and neither it nor its parent changes the other's thread by that.
CREATE TABLE undone (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id    TEXT NOT NULL,
  undone_at  INTEGER NOT NULL,
  PRIMARY KEY (session_id, turn_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
  id           TEXT PRIMARY KEY,
  session_id   TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn_id      TEXT NOT NULL,
  tool_call_id TEXT NOT NULL,
  tool_name    TEXT NOT NULL,
  request      TEXT NOT NULL,
  asked_at     INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL,
  decision     TEXT CHECK (decision IN ('yes', 'no')),
  scope        TEXT CHECK (scope IN ('once', 'session', 'always')),
  decided_by   TEXT,
  decided_at   INTEGER
) STRICT;
CREATE INDEX approvals_session ON approvals (session_id);
CREATE INDEX approvals_open ON approvals (asked_at) WHERE decision IS NULL;

CREATE TABLE leases (
  session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  holder     TEXT,
  epoch      INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE attachments (
  session_id TEXT PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  host       TEXT NOT NULL,
  process    TEXT NOT NULL,
  pid        INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  terminal   TEXT,
  since      INTEGER NOT NULL,
  beat_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  key        TEXT NOT NULL,
  result     TEXT NOT NULL,
  at         INTEGER NOT NULL,
  PRIMARY KEY (session_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_at ON idempotency (at);

CREATE TABLE inbox (
  id          TEXT PRIMARY KEY,
  channel     TEXT NOT NULL,
  account     TEXT NOT NULL,
  external_id TEXT,
  key         TEXT NOT NULL,
  session_id  TEXT,
  person      TEXT NOT NULL,
  payload     TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('queued', 'claimed', 'done', 'dropped')),
  claimant    TEXT,
  claimed_at  INTEGER,
  turn_id     TEXT,
  received_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX inbox_identity ON inbox (channel, account, external_id)
  WHERE external_id IS NOT NULL;
CREATE INDEX inbox_open ON inbox (status, session_id) WHERE status IN ('queued', 'claimed');

CREATE TABLE outbox (
  id         TEXT PRIMARY KEY,
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  key        TEXT NOT NULL,
  channel    TEXT NOT NULL,
  address    TEXT NOT NULL,
  content    TEXT NOT NULL,
  turn_id    TEXT,
  seq        INTEGER,
  status     TEXT NOT NULL CHECK (status IN ('pending', 'sending', 'sent', 'uncertain', 'failed',
               'withheld')),
  attempts   INTEGER NOT NULL DEFAULT 0,
  due_at     INTEGER NOT NULL,
  claimant   TEXT,
  claimed_at INTEGER,
  receipt    TEXT,
  error      TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX outbox_open ON outbox (key) WHERE status IN ('pending', 'sending', 'uncertain');
CREATE INDEX outbox_session ON outbox (session_id);

CREATE TABLE tokens (
  id         TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  person     TEXT NOT NULL,
  scope      TEXT NOT NULL CHECK (scope IN ('read', 'chat', 'write', 'admin')),
  digest     BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;

CREATE TABLE compactions (
  id            TEXT PRIMARY KEY,
  session_id    TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  keep_from     INTEGER NOT NULL,
  made_at_seq   INTEGER NOT NULL,
  summary       TEXT NOT NULL,
  short_summary TEXT,
  tokens_before INTEGER,
  tokens_after  INTEGER,
  created_at    INTEGER NOT NULL,
  undone_at     INTEGER
) STRICT;
CREATE INDEX compactions_session ON compactions (session_id, made_at_seq);

CREATE TABLE scratchpad (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  name       TEXT NOT NULL,
  content    TEXT NOT NULL,
  size       INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (session_id, name)
) STRICT;

CREATE TABLE todos (
  session_id TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  position   INTEGER NOT NULL,
  text       TEXT NOT NULL,
  status     TEXT NOT NULL CHECK (status IN ('pending', 'in_progress', 'done', 'cancelled')),
  PRIMARY KEY (session_id, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
  hash       TEXT PRIMARY KEY,
  media_type TEXT NOT NULL,
  data       BLOB NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE message_blobs (
  message_id INTEGER NOT NULL REFERENCES messages (id) ON DELETE CASCADE,
  hash       TEXT NOT NULL REFERENCES blobs (hash),
  PRIMARY KEY (message_id, hash)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_blobs_hash ON message_blobs (hash);

-- For people with the sqlite3 shell.
CREATE VIEW v_sessions AS
  SELECT id, key, platform, person, coalesce(title, short_summary, preview) AS name,
         message_count AS messages, cwd, model,
         datetime(created_at / 1000, 'unixepoch') AS created,
         datetime(updated_at / 1000, 'unixepoch') AS updated,
         CASE WHEN deleted_at IS NOT NULL THEN 'trash'
              WHEN archived_at IS NOT NULL THEN 'archived' ELSE 'active' END AS state,
         input_tokens, output_tokens, cost / 1e9 AS cost_usd
  FROM sessions WHERE purged_at IS NULL;
CREATE VIEW v_messages AS
  SELECT m.session_id, m.seq, datetime(m.at / 1000, 'unixepoch') AS at, m.role,
         coalesce(m.tool_name, '') AS tool, m.content
  FROM messages m;
