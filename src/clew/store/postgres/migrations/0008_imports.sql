-- Which sessions came from the histories of other agents, or from a file: under which id their agent
-- has them, what the source looked like when it was last read, and up to which message they came from
-- there. A row outlives its session, so that a history that was thrown away stays away.
CREATE TABLE imports (
  session_id TEXT COLLATE "C" PRIMARY KEY,
  agent      TEXT COLLATE "C" NOT NULL,
  native_id  TEXT COLLATE "C" NOT NULL,
  stamp      TEXT COLLATE "C" NOT NULL,
  head       BIGINT NOT NULL,
  noted_at   BIGINT NOT NULL
);
CREATE INDEX imports_agent ON imports (agent);
CREATE INDEX imports_native ON imports (native_id);
