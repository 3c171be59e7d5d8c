-- A reply names the account that sends it, and the files that go along. Claims are by channel and
-- account: two gateways with different accounts never wait for each other.
ALTER TABLE outbox ADD COLUMN account TEXT COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE outbox ADD COLUMN parts TEXT COLLATE "C";
-- Not read as JSON: that refuses a NUL anywhere in it.
UPDATE outbox SET account = substring(address FROM '"account":"([^"\\]*)"')
WHERE address ~ '"account":"([^"\\]*)"';
DROP INDEX outbox_due;
CREATE INDEX outbox_due ON outbox (channel, account, due_at, ordinal) WHERE status = 'pending';

-- What was said beside a conversation, until the next message to the agent takes it along: lines of
-- a group without a mention, and edits of messages that were answered already.
CREATE TABLE context_lines (
  id          TEXT COLLATE "C" PRIMARY KEY,
  key         TEXT COLLATE "C" NOT NULL,
  session_id  TEXT COLLATE "C",
  channel     TEXT COLLATE "C" NOT NULL,
  account     TEXT COLLATE "C" NOT NULL,
  external_id TEXT COLLATE "C",
  kind        TEXT COLLATE "C" NOT NULL CHECK (kind IN ('said', 'edited')),
  author      TEXT COLLATE "C",
  content     TEXT COLLATE "C" NOT NULL,
  at          BIGINT NOT NULL,
  ordinal     BIGINT GENERATED ALWAYS AS IDENTITY
);
CREATE INDEX context_lines_key ON context_lines (key, ordinal);
CREATE INDEX context_lines_session ON context_lines (session_id) WHERE session_id IS NOT NULL;
CREATE INDEX context_lines_age ON context_lines (at);
CREATE UNIQUE INDEX context_lines_identity ON context_lines (channel, account, external_id)
  WHERE external_id IS NOT NULL;
