-- People whom the owner has let in, or refused, and those who ask to be let in.
CREATE TABLE pairings (
  person     TEXT COLLATE "C" PRIMARY KEY,
  channel    TEXT COLLATE "C" NOT NULL,
  status     TEXT COLLATE "C" NOT NULL CHECK (status IN ('waiting', 'paired', 'refused')),
  name       TEXT COLLATE "C",
  code       TEXT COLLATE "C" UNIQUE,
  told       BIGINT NOT NULL DEFAULT 0,
  reply_to   TEXT COLLATE "C",
  asked_at   BIGINT,
  expires_at BIGINT,
  decided_at BIGINT,
  decided_by TEXT COLLATE "C"
);
CREATE INDEX pairings_waiting ON pairings (channel, expires_at) WHERE status = 'waiting';

-- What such people are told belongs to no session.
ALTER TABLE outbox ALTER COLUMN session_id DROP NOT NULL;
