-- Further ways in which a list is asked for, each in the order in which it is shown. Nearly every
-- session is the main agent's, and a session without a project is in no list of a project.
CREATE INDEX sessions_kind
  ON sessions (kind, (archived_at IS NOT NULL), pinned, updated_at, id)
  WHERE deleted_at IS NULL;
CREATE INDEX sessions_agent
  ON sessions (agent, (archived_at IS NOT NULL), pinned, updated_at, id)
  WHERE deleted_at IS NULL AND agent <> 'main';
CREATE INDEX sessions_project
  ON sessions (project, (archived_at IS NOT NULL), pinned, updated_at, id)
  WHERE deleted_at IS NULL AND project IS NOT NULL;

-- Sessions whose newest turn was cut off are found among these.
CREATE INDEX turns_interrupted ON turns (session_id) WHERE status = 'interrupted';
