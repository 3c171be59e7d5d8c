-- What the chunks of the memory files mean, as an embedding model says it: 32-bit floats. The files
-- stay the truth; a row that is gone is made again.
CREATE TABLE memory_vectors (
  source  TEXT NOT NULL,
  model   TEXT NOT NULL,
  hash    TEXT NOT NULL,
  vector  BLOB NOT NULL,
  made_at INTEGER NOT NULL,
  PRIMARY KEY (source, model, hash)
) STRICT, WITHOUT ROWID;
