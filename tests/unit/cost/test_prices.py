"""The price table, and what pods cost by it."""

import pytest

from trireme.cost import prices, table
from trireme.cost.table import in_words
from trireme.errors import InputError
from trireme.kubernetes.amounts import limits, requests
from trireme.manifests.roles import roles
from trireme.runner.bill import job_hour

A100 = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}


@pytest.mark.parametrize(
    ("fields", "hour"),
    [
        ({}, 6),  # three pods of 2 CPUs and 4 GiB
        ({"cpu": "500m", "memory": "512Mi"}, 3 * (0.25 + 0.125)),
        ({"gpu": 1}, 6 + 3 * 2),
        ({"gpu": 2, "scheduling": {"node_selector": A100}}, 6 + 6 * 4),
        ({"devices": {"amd.com/gpu": 1}}, 6 + 3 * 3),
        ({"devices": {"nvidia.com/mig-1g.10gb": 1}}, 6 + 3 * 2),
        ({"devices": {"rdma/hca": 1, "nvidia.com/gpumem": 1000}}, 6),
        ({"scheduling": {"spot": "gke"}}, 3),
        ({"replicas": {"worker": {"count": 2, "gpu": 1}}, "workers": None}, 6 + 2 * 2),
        ({"workers": None, "elastic": {"min": 1, "max": 4}}, 8),
        ({"framework": "tensorflow", "replicas": {"chief": {}, "ps": {"count": 2}}}, 10),
        ({"framework": "mpi", "gpu": 1}, 6 + 2 * 2),  # the launcher has no GPU
    ],
)
def test_a_job_costs_what_its_pods_request(priced, manifest, fields, hour):
    assert job_hour(prices.read(), manifest(**fields)) == pytest.approx(hour)


def test_a_job_costs_the_same_whichever_operator_runs_it(priced, manifest):
    job = manifest("trainer", gpu=1, scheduling={"node_selector": A100})
    assert job_hour(prices.read(), job) == pytest.approx(6 + 3 * 4)
    assert [(role.name, role.count) for role in roles(job)] == [("master", 1), ("worker", 2)]
    assert {role.name: role.selector for role in roles(job)} == {"master": A100, "worker": A100}
    patched = manifest(
        "trainer", gpu=1, scheduling={"node_selector": A100}, runtime="torch-distributed"
    )
    assert job_hour(prices.read(), patched) == pytest.approx(6 + 3 * 4)
    (node,) = roles(patched)
    assert (node.name, node.count, node.selector) == ("node", 3, A100)


def test_a_container_that_comes_before_counts_where_it_asks_for_more(manifest):
    code = {"url": "https://example.org/code.git"}
    pod = roles(manifest(cpu="500m", memory="2Gi", code=code))[0].pod
    assert requests(pod) == {"cpu": 0.5, "memory": 2 * 2**30}
    assert limits(pod) == {"cpu": 1, "memory": 2 * 2**30}


def test_a_container_that_runs_beside_counts_with_the_others():
    one = {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    pod = {"containers": [one], "initContainers": [one | {"restartPolicy": "Always"}, one]}
    assert requests(pod) == {"cpu": 2}


def test_a_container_that_comes_before_counts_with_those_that_run_beside_it_by_then():
    def one(cpu, **fields):
        return {"name": "a", "resources": {"requests": {"cpu": cpu}}} | fields

    beside = one("2", restartPolicy="Always")
    assert requests({"containers": [one("1")], "initContainers": [beside, one("4")]}) == {"cpu": 6}
    assert requests({"containers": [one("1")], "initContainers": [one("4"), beside]}) == {"cpu": 4}


def test_what_a_pod_has_as_a_whole_counts_in_place_of_its_containers():
    asked = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"memory": "1Gi"}}
    whole = {"requests": {"cpu": "8"}, "limits": {"cpu": "16", "memory": "4Gi"}}
    pod = {"containers": [{"name": "a", "resources": asked}], "resources": whole}
    assert requests(pod) == {"cpu": 8, "memory": 2**30, "nvidia.com/gpu": 1}
    assert limits(pod) == {"cpu": 16, "memory": 4 * 2**30}


def test_there_need_not_be_a_table(no_prices):
    assert prices.read() is None


def test_in_a_pod_it_is_what_is_mounted(priced, mount):
    mount(table.MOUNT)
    assert prices.read() is None  # the ConfigMap is not there
    mount(table.MOUNT, **{table.NAME: "{currency: USD, cpu_hour: 1, gib_hour: 0, gpu_hour: 0}"})
    assert prices.read().currency == "USD"


def test_a_config_map_with_another_key_is_not_taken_for_none(priced, mount):
    mount(table.MOUNT, prices="")
    with pytest.raises(InputError, match=r"prices\.yaml: cannot be read: No such file"):
        prices.read()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("currency: [", "is not YAML: while parsing"),
        ("", "must map currency, cpu_hour, gib_hour, gpu_hour, gpu_hour_by_type, spot to values"),
        ("1: 2", "must map currency, "),
        ("currency: EUR", "prices.cpu_hour is needed; prices has currency, cpu_hour, "),
        ("{cpu_hours: 1}", "prices.cpu_hours is not a field; prices has currency, "),
        (
            "{currency: EUR, cpu_hour: x, gib_hour: 1, gpu_hour: 1}",
            "prices.cpu_hour 'x': input should be a valid number",
        ),
        (
            "{currency: EUR, cpu_hour: -1, gib_hour: 1, gpu_hour: 1}",
            "prices.cpu_hour -1: input should be greater than or equal to 0",
        ),
        (
            "{currency: EUR, cpu_hour: .nan, gib_hour: 1, gpu_hour: 1}",
            "prices.cpu_hour nan: input should be a finite number",
        ),
        (
            "{currency: EUR, cpu_hour: 1, gib_hour: 1, gpu_hour: 1, spot: 0}",
            "prices.spot 0: input should be greater than 0",
        ),
        (
            "{currency: EUR, cpu_hour: 1, gib_hour: 1, gpu_hour: 1, gpu_hour_by_type: {a: b}}",
            "prices.gpu_hour_by_type.a 'b': input should be a valid number",
        ),
    ],
)
def test_a_broken_table_is_one_sentence(no_prices, text, said):
    no_prices.write_text(text)
    with pytest.raises(InputError) as caught:
        prices.read()
    assert str(caught.value).startswith(f"price table {no_prices}")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        (0, "0.00 EUR"),
        (1234.567, "1,234.57 EUR"),
        (1, "1.00 EUR"),
        (0.999, "1.00 EUR"),
        (0.5, "0.50 EUR"),
        (0.0123, "0.012 EUR"),
        (0.0000456, "0.000046 EUR"),
    ],
)
def test_little_money_is_not_shown_as_none(amount, words):
    assert in_words(amount, "EUR") == words
