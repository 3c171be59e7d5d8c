-- A token has a set of scopes, and is sent as a bearer token or as a browser's cookie. SQLite can't
-- drop a CHECK, so the table is made anew. What the owner's scope `write` could do, it still can:
-- it answered approvals. A browser's token is known by its name and its thirty days to the
-- millisecond.
CREATE TABLE tokens_made_anew (
  id         TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  person     TEXT NOT NULL,
  scopes     TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('bearer', 'cookie')),
  digest     BLOB NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;
INSERT INTO tokens_made_anew
SELECT id, name, person,
       CASE WHEN scope = 'write' AND person = 'owner' THEN 'write,approve' ELSE scope END,
       CASE WHEN name = 'browser' AND scope = 'admin' AND expires_at - created_at = 2592000000
            THEN 'cookie' ELSE 'bearer' END,
       digest, created_at, expires_at, revoked_at
FROM tokens ORDER BY rowid;
DROP TABLE tokens;
ALTER TABLE tokens_made_anew RENAME TO tokens;
