-- People whom the owner has let in, or refused, and those who ask to be let in.
CREATE TABLE pairings (
  person     TEXT PRIMARY KEY,
  channel    TEXT NOT NULL,
  status     TEXT NOT NULL CHECK (status IN ('waiting', 'paired', 'refused')),
  name       TEXT,
  code       TEXT UNIQUE,
  told       INTEGER NOT NULL DEFAULT 0,
  reply_to   TEXT,
  asked_at   INTEGER,
  expires_at INTEGER,
  decided_at INTEGER,
  decided_by TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX pairings_waiting ON pairings (channel, expires_at) WHERE status = 'waiting';

-- What such people are told belongs to no session.
CREATE TABLE outbox_new (
  id         TEXT PRIMARY KEY,
  session_id TEXT REFERENCES sessions (id) ON DELETE CASCADE,
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
INSERT INTO outbox_new (rowid, id, session_id, key, channel, address, content, turn_id, seq, status,
    attempts, due_at, claimant, claimed_at, receipt, error, created_at, updated_at)
  SELECT rowid, id, session_id, key, channel, address, content, turn_id, seq, status, attempts,
    due_at, claimant, claimed_at, receipt, error, created_at, updated_at
  FROM outbox ORDER BY rowid;
DROP TABLE outbox;
ALTER TABLE outbox_new RENAME TO outbox;
CREATE INDEX outbox_open ON outbox (key) WHERE status IN ('pending', 'sending', 'uncertain');
CREATE INDEX outbox_session ON outbox (session_id);
