-- The jobs of shared studies, those of the base models that they adapt, and those of shared base
-- models. A view, so that jobs of an extension are shared from the moment at which they are linked.
CREATE VIEW shared_jobs AS
    SELECT share.project_id, link.job_id
        FROM study_shares AS share JOIN study_jobs AS link ON link.study_id = share.study_id
    UNION ALL
    SELECT share.project_id, pass.job_id
        FROM study_shares AS share JOIN study_passes AS pass ON pass.study_id = share.study_id
    UNION ALL
    SELECT share.project_id, base.job_id
        FROM study_shares AS share
        JOIN studies AS study ON study.id = share.study_id
        JOIN base_models AS base ON base.project_id = study.project_id
        WHERE base.name IN (
            SELECT link.base_model FROM study_jobs AS link WHERE link.study_id = study.id
        )
    UNION ALL
    SELECT base.project_id, base.job_id FROM base_models AS base
        WHERE base.shared_from IS NOT NULL;

-- A foreign key looks the attempt up for every row, this once per statement. No lock is needed:
-- writing points locks the job's row, and so does deleting the job.
CREATE FUNCTION check_metric_points() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    DECLARE
        stray record;
    BEGIN
        SELECT found.job_id, found.attempt INTO stray
        FROM (SELECT DISTINCT job_id, attempt FROM written) found
        WHERE NOT EXISTS (
            SELECT FROM attempts a WHERE a.job_id = found.job_id AND a.attempt = found.attempt
        ) LIMIT 1;
        IF FOUND THEN
            RAISE foreign_key_violation USING MESSAGE = format(
                'There is no attempt %s of job %s for these points.', stray.attempt, stray.job_id
            );
        END IF;
        RETURN NULL;
    END $$;
CREATE TRIGGER have_attempts AFTER INSERT ON metric_points
    REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT
    EXECUTE FUNCTION check_metric_points();
CREATE TRIGGER have_attempts_still AFTER UPDATE ON metric_points
    REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT
    EXECUTE FUNCTION check_metric_points();

-- Counts are deferred, so that one is locked only while its transaction commits. Sixteen rows per
-- count, so that few transactions wait for each other.
CREATE FUNCTION count_claim() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    DECLARE
        claimed_from text;
        claimable_at timestamptz;
        waited double precision;
    BEGIN
        SELECT jobs.queue, greatest(jobs.run_at, coalesce(
            (SELECT at FROM job_events
             WHERE job_events.job_id = jobs.id AND job_events.type = 'queued'
             ORDER BY sequence DESC LIMIT 1),
            jobs.created_at))
        INTO claimed_from, claimable_at FROM jobs WHERE jobs.id = NEW.job_id;
        IF claimed_from IS NULL THEN
            RETURN NULL;
        END IF;
        waited := greatest(extract(epoch FROM NEW.started_at - claimable_at), 0);
        INSERT INTO claim_counts AS counted (queue, bucket, shard, claims, seconds)
        VALUES (
            claimed_from,
            width_bucket(waited, ARRAY[
                0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 21600, 86400
            ]::double precision[]),
            pg_backend_pid() % 16, 1, waited
        )
        ON CONFLICT (queue, bucket, shard) DO UPDATE
        SET claims = counted.claims + 1, seconds = counted.seconds + EXCLUDED.seconds;
        RETURN NULL;
    END
    $$;
CREATE CONSTRAINT TRIGGER count_claim AFTER INSERT ON attempts
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW
    EXECUTE FUNCTION count_claim();

CREATE FUNCTION count_ended_attempt() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        INSERT INTO attempt_counts AS counted (outcome, reason, shard, attempts)
        VALUES (NEW.outcome, coalesce(NEW.reason, ''), pg_backend_pid() % 16, 1)
        ON CONFLICT (outcome, reason, shard) DO UPDATE SET attempts = counted.attempts + 1;
        RETURN NULL;
    END
    $$;
CREATE CONSTRAINT TRIGGER count_ended_attempt AFTER UPDATE ON attempts
    DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (OLD.outcome IS NULL AND NEW.outcome IS NOT NULL)
    EXECUTE FUNCTION count_ended_attempt();

-- With the owner's rights, so that neither the API nor a worker needs the right to delete any job.
-- Tokens stay, revoked, because the audit log and workers name them. Studies refuse by their keys.
CREATE FUNCTION delete_ended_jobs(wanted uuid[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'public'
    AS $$
    BEGIN
        PERFORM FROM jobs WHERE id = ANY (wanted)
            AND state NOT IN ('succeeded', 'failed', 'cancelled');
        IF FOUND THEN
            RAISE EXCEPTION 'only jobs that have ended can be deleted'
                USING ERRCODE = 'check_violation';
        END IF;
        UPDATE tokens SET revoked_at = coalesce(revoked_at, clock_timestamp()), job_id = NULL
            WHERE job_id = ANY (wanted);
        DELETE FROM idempotency_keys WHERE job_id = ANY (wanted);
        DELETE FROM base_models WHERE job_id = ANY (wanted);
        DELETE FROM jobs WHERE id = ANY (wanted);
    END
    $$;

-- The retry of a job that is deleted forgets it; nothing else changes what a job is a retry of.
CREATE FUNCTION guard_job_states() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        -- A job that has ended stays as it is; only what users write on it is theirs to change.
        IF OLD.state IN ('succeeded', 'failed', 'cancelled') THEN
            IF to_jsonb(OLD) - '{labels,notes,archived_at,name,retry_of}'::text[]
                IS DISTINCT FROM to_jsonb(NEW) - '{labels,notes,archived_at,name,retry_of}'::text[]
                OR (NEW.retry_of IS NOT NULL AND NEW.retry_of IS DISTINCT FROM OLD.retry_of) THEN
                RAISE EXCEPTION 'job % has ended as % and cannot change', OLD.id, OLD.state
                    USING ERRCODE = 'check_violation';
            END IF;
        ELSIF OLD.state <> NEW.state AND (OLD.state, NEW.state) NOT IN (
            ('waiting', 'queued'), ('waiting', 'cancelled'), ('waiting', 'failed'),
            ('queued', 'running'), ('queued', 'cancelled'), ('queued', 'failed'),
            ('queued', 'paused'),
            ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'),
            ('running', 'queued'), ('running', 'paused'),
            ('paused', 'queued'), ('paused', 'cancelled')
        ) THEN
            RAISE EXCEPTION 'job % cannot go from % to %', OLD.id, OLD.state, NEW.state
                USING ERRCODE = 'check_violation';
        END IF;
        -- The attempt is the fencing token: every claim raises it by one, nothing else touches it.
        IF NEW.attempt <> OLD.attempt + (OLD.state = 'queued' AND NEW.state = 'running')::int THEN
            RAISE EXCEPTION 'job % cannot go from attempt % to % while it goes from % to %',
                OLD.id, OLD.attempt, NEW.attempt, OLD.state, NEW.state
                USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END
    $$;
CREATE TRIGGER guard_states BEFORE UPDATE ON jobs
    FOR EACH ROW
    EXECUTE FUNCTION guard_job_states();

CREATE FUNCTION refuse_to_change_audit_entries() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        RAISE EXCEPTION 'The audit log is append-only: % is refused.', TG_OP;
    END $$;
CREATE TRIGGER append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT
    EXECUTE FUNCTION refuse_to_change_audit_entries();

CREATE FUNCTION remove_metric_points() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        DELETE FROM metric_points p USING gone
        WHERE p.job_id = gone.job_id AND p.attempt = gone.attempt;
        RETURN NULL;
    END $$;
CREATE TRIGGER remove_points AFTER DELETE ON attempts
    REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT
    EXECUTE FUNCTION remove_metric_points();

-- UNION visits equal members only once. Names with a dot cannot be used in filters.
CREATE FUNCTION spec_numbers_of_new_jobs() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
    BEGIN
        INSERT INTO spec_numbers (path, number)
        WITH RECURSIVE members (path, value) AS (
            SELECT one.key, one.value FROM new_jobs AS jobs, jsonb_each(jobs.resolved_spec) AS one
            WHERE jsonb_typeof(one.value) IN ('object', 'number') AND one.key ~ '^[A-Za-z0-9_-]+$'
            UNION
            SELECT members.path || '.' || one.key, one.value
            FROM members, LATERAL jsonb_each(
                CASE WHEN jsonb_typeof(members.value) = 'object' THEN members.value END
            ) AS one
            WHERE jsonb_typeof(one.value) IN ('object', 'number') AND one.key ~ '^[A-Za-z0-9_-]+$'
        )
        SELECT path, value::numeric FROM members
        WHERE jsonb_typeof(value) = 'number' AND NOT EXISTS (
            SELECT FROM spec_numbers AS there
            WHERE there.path = members.path AND there.number = members.value::numeric
        );
        RETURN NULL;
    END
    $$;
CREATE TRIGGER spec_numbers_of_new_jobs AFTER INSERT ON jobs
    REFERENCING NEW TABLE AS new_jobs
    FOR EACH STATEMENT
    EXECUTE FUNCTION spec_numbers_of_new_jobs();
