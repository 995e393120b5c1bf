"""trireme/data/volumes.py."""

import pytest
import yaml

from trireme.data.description import Dataset
from trireme.data.volumes import persistent, volume


def test_a_claim_is_mounted_read_only_at_its_path():
    assert volume(Dataset(uri="pvc://claim/train"), "/data") == (
        {"name": "dataset", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
        {"name": "dataset", "mountPath": "/data", "readOnly": True, "subPath": "train"},
    )


@pytest.mark.parametrize(("uri", "path"), [("nfs://server", "/"), ("nfs://server/a/b/", "/a/b")])
def test_an_export_is_mounted_read_only(uri, path):
    assert volume(Dataset(uri=uri), "/data") == (
        {"name": "dataset", "nfs": {"server": "server", "path": path, "readOnly": True}},
        {"name": "dataset", "mountPath": "/data", "readOnly": True},
    )


def test_what_an_export_needs():
    held, claim = persistent(Dataset(uri="nfs://server/a/b"), "export", "team")
    assert held["spec"]["nfs"] == {"server": "server", "path": "/a/b", "readOnly": True}
    assert held["spec"]["mountOptions"] == ["ro"]
    assert claim["spec"]["volumeName"] == held["metadata"]["name"] == "team-export"


def test_what_alibabas_nas_needs_besides():
    dataset = Dataset(uri="nfs://a1-b2.cn-hangzhou.nas.aliyuncs.com/flowers")
    spec = persistent(dataset, "nas", "team")[0]["spec"]
    assert spec["mountOptions"] == ["ro", "vers=3", "nolock", "proto=tcp", "noresvport"]


def test_what_the_oss_driver_needs():
    dataset = Dataset(
        uri="oss://bucket/train", access="mount", secret="oss-keys", region="cn-hangzhou"
    )
    held, claim = persistent(dataset, "run-data", "team")
    assert held["spec"]["csi"] == {
        "driver": "ossplugin.csi.alibabacloud.com",
        "volumeHandle": "team-run-data",
        "readOnly": True,
        "volumeAttributes": {
            "bucket": "bucket",
            "url": "https://oss-cn-hangzhou-internal.aliyuncs.com",
            "path": "/train",
            "otherOpts": "-o ro -o allow_other -o umask=022",
        },
        "nodePublishSecretRef": {"name": "oss-keys", "namespace": "team"},
    }
    assert held["spec"]["claimRef"] == {"namespace": "team", "name": "run-data"}
    assert claim["metadata"] == {"name": "run-data", "namespace": "team"}
    assert claim["spec"]["volumeName"] == held["metadata"]["name"]
    assert claim["spec"]["storageClassName"] == ""
    for part in (held, claim):
        assert part["spec"]["accessModes"] == ["ReadOnlyMany"]


def test_what_the_s3_driver_needs():
    dataset = Dataset(
        uri="s3://bucket/train",
        access="mount",
        region="eu-west-1",
        endpoint="storage.example.org:9000",
    )
    spec = persistent(dataset, "run-data", "team")[0]["spec"]
    assert spec["csi"] == {
        "driver": "s3.csi.aws.com",
        "volumeHandle": "team-run-data",
        "volumeAttributes": {"bucketName": "bucket"},
    }
    assert spec["mountOptions"] == [
        "read-only",
        "allow-other",
        "region eu-west-1",
        "endpoint-url https://storage.example.org:9000",
        "force-path-style",
        "prefix train/",
    ]


def test_the_command_prints_both_for_kubectl(trireme):
    status, output, _ = trireme(
        *("dataset", "volume", "oss://bucket/train", "--name", "flowers", "-n", "team"),
        *("--secret", "oss-keys", "--options", '{"region": "cn-hangzhou"}'),
    )
    dataset = Dataset(
        uri="oss://bucket/train", access="mount", secret="oss-keys", region="cn-hangzhou"
    )
    assert status == 0
    assert list(yaml.safe_load_all(output)) == persistent(dataset, "flowers", "team")


def test_the_secret_is_the_clusters_also_under_its_usual_name(trireme):
    arguments = ["oss://bucket", "--name", "a", "--options", '{"region": "cn-hangzhou"}']
    output = trireme("dataset", "volume", *arguments, "--secret", "trireme-dataset")[1]
    held, _ = yaml.safe_load_all(output)
    assert held["spec"]["csi"]["nodePublishSecretRef"]["name"] == "trireme-dataset"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pvc://claim", "--name", "a"], "there is a claim already"),
        (["gs://bucket", "--name", "a"], "access 'mount' goes with"),
        (["builtin://digits", "--name", "a"], "access 'mount' goes with"),
        (["oss://bucket", "--name", "a"], "needs endpoint or region"),
        (["s3://bucket", "--name", "A"], "--name 'A': must be small letters"),
        (["s3://bucket", "--name", "a", "-n", "_"], "--namespace '_': must be small letters"),
        (["s3://bucket", "--name", "a", "--options", "[]"], "--options '[]': must be a JSON"),
        (["s3://bucket", "--name", "a", "--options", "{"], "--options '{': must be a JSON"),
        (["s3://bucket", "--name", "a", "--options", '{"a": 1}'], "dataset_options.a"),
        (
            ["s3://bucket", "--name", "a", "--options", '{"region": "a", "region": "b"}'],
            "--options: 'region' is given twice",
        ),
        (["s3://bucket", "--name", "a", "--secret", "keys"], "secret does not go with"),
    ],
)
def test_a_volume_that_cannot_be_is_one_sentence(arguments, said, trireme):
    status, output, error = trireme("dataset", "volume", *arguments)
    assert (status, output, error.count("\n")) == (2, "", 1)
    assert said in error
