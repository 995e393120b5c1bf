"""Jobs that wait in a queue, and clusters where nobody would ever let them in."""

from trireme.runner.cluster import jobs


def test_a_queue_without_kueue_is_named(launched, player, queued):
    run = launched(queued)
    player.condition(player.wait_for(queued), "Suspended")
    run.says("queued: it asks for queue gpus, but Kueue is not installed on the cluster")
    jobs.delete(player.cluster, "digits")
    run.end()


def test_gang_scheduling_without_a_scheduler_is_named(launched, player, gang):
    run = launched(gang)
    player.condition(player.wait_for(gang), "Created")
    run.says("queued: it asks for gang scheduling, but no PodGroup has been created for it")
    jobs.delete(player.cluster, "digits")
    run.end()
