-- Two more ways to find a session: by the end of its id, and by the key under which it was made.
-- Four digits of the end are enough for the index: few sessions share them, and unlike the time of
-- the last update they never change.
CREATE INDEX sessions_ending ON sessions (right(id, 4)) WHERE deleted_at IS NULL;
CREATE INDEX sessions_key ON sessions (key, updated_at, id) WHERE deleted_at IS NULL;

-- What was spent since a time, of all sessions.
CREATE INDEX turns_started ON turns (started_at);
