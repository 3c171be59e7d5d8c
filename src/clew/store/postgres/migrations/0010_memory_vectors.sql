-- What the chunks of the memory files mean, as an embedding model says it: 32-bit floats. The files
-- stay the truth; a row that is gone is made again.
CREATE TABLE memory_vectors (
  source  TEXT COLLATE "C" NOT NULL,
  model   TEXT COLLATE "C" NOT NULL,
  hash    TEXT COLLATE "C" NOT NULL,
  vector  BYTEA NOT NULL,
  made_at BIGINT NOT NULL,
  PRIMARY KEY (source, model, hash)
);
