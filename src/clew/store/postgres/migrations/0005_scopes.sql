-- A token has a set of scopes, and is sent as a bearer token or as a browser's cookie. What the
-- owner's scope `write` could do, it still can: it answered approvals. A browser's token is known by
-- its name and its thirty days to the millisecond.
ALTER TABLE tokens DROP CONSTRAINT tokens_scope_check;
ALTER TABLE tokens RENAME COLUMN scope TO scopes;
ALTER TABLE tokens ADD COLUMN kind TEXT COLLATE "C" NOT NULL DEFAULT 'bearer'
  CHECK (kind IN ('bearer', 'cookie'));
ALTER TABLE tokens ALTER COLUMN kind DROP DEFAULT;
UPDATE tokens SET kind = 'cookie'
WHERE name = 'browser' AND scopes = 'admin' AND expires_at - created_at = 2592000000;
UPDATE tokens SET scopes = 'write,approve' WHERE scopes = 'write' AND person = 'owner';
