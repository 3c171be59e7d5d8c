-- A reply names the account that sends it, and the files that go along. Claims are by channel and
-- account: two gateways with different accounts never wait for each other.
ALTER TABLE outbox ADD COLUMN account TEXT NOT NULL DEFAULT 'default';
ALTER TABLE outbox ADD COLUMN parts TEXT;
UPDATE outbox SET account = json_extract(address, '$.account')
WHERE json_type(address, '$.account') = 'text';
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (channel, account, due_at) WHERE status = 'pending';

-- What was said beside a conversation, until the next message to the agent takes it along: lines of
-- a group without a mention, and edits of messages that were answered already.
CREATE TABLE context_lines (
  id          TEXT PRIMARY KEY,
  key         TEXT NOT NULL,
  session_id  TEXT,
  channel     TEXT NOT NULL,
  account     TEXT NOT NULL,
  external_id TEXT,
  kind        TEXT NOT NULL CHECK (kind IN ('said', 'edited')),
  author      TEXT,
  content     TEXT NOT NULL,
  at          INTEGER NOT NULL
) STRICT;
CREATE INDEX context_lines_key ON context_lines (key);
CREATE INDEX context_lines_session ON context_lines (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX context_lines_age ON context_lines (at);
CREATE UNIQUE INDEX context_lines_identity ON context_lines (channel, account, external_id)
  WHERE external_id IS NOT NULL;
