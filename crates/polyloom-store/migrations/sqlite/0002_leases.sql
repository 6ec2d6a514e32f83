-- Work to be done: a workload to be profiled in an environment by a policy, and who does it.
CREATE TABLE leases (
  id INTEGER PRIMARY KEY,
  workload_id INTEGER NOT NULL REFERENCES workloads (id),
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  policy TEXT NOT NULL CHECK (policy <> ''),
  priority INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'leased', 'done', 'failed')),
  n_attempts INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL CHECK (max_attempts > 0),
  -- Grows with every lease; a worker that shows an older one has lost its lease.
  token INTEGER NOT NULL,
  owner TEXT,
  leased_until INTEGER,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  reason TEXT,
  UNIQUE (workload_id, environment_id, policy),
  CHECK ((state = 'leased') = (leased_until IS NOT NULL)),
  CHECK (state <> 'leased' OR owner IS NOT NULL)
) STRICT;
CREATE INDEX leases_waiting ON leases (environment_id, priority DESC, id) WHERE state = 'waiting';
CREATE INDEX leases_expiring ON leases (environment_id, leased_until) WHERE state = 'leased';
