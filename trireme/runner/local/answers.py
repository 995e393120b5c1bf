"""Jobs of this machine, as answers."""

from pathlib import Path

from trireme.answers.answer import moment
from trireme.answers.goodput import goodput
from trireme.answers.jobs import JobList, JobStatus, ListedJob, ReplicaStatus, job_progress
from trireme.runner.local import jobs


def job_list(home: Path) -> JobList:
    """Returns the jobs of this machine as an answer."""
    return JobList(
        namespace="",
        jobs=[
            ListedJob(
                name=job.name,
                job_kind=job.kind,
                state=job.state,
                created=moment(job.started),
                running=None,
                replicas=len(job.replicas),
                reason=job.reason,
            )
            for job in jobs.all_jobs(home)
        ],
    )


def job_status(home: Path, name: str) -> JobStatus:
    """Returns all there is to see of a job as an answer."""
    job = jobs.find(home, name)
    return JobStatus(
        name=job.name,
        job_kind=job.kind,
        namespace="",
        state=job.state,
        has_ended=job.state != "running",
        created=moment(job.started),
        seconds=job.seconds,
        reason=job.reason,
        progress=job_progress(job.progress),
        running=None,
        expected=None,
        replicas=[ReplicaStatus(name=replica) for replica in job.replicas],
        conditions=[],
        events=[],
        goodput=goodput(of) if (of := job.goodput) else None,
        directory=str(job.directory),
    )
