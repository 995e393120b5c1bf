"""components/dataset/volumes.py."""

import pytest

from components.dataset.description import Dataset
from components.dataset.volumes import persistent, volume


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


def test_a_bucket_is_mounted_by_the_claim_made_for_it():
    dataset = Dataset(uri="s3://bucket/train", access="mount")
    source, mount = volume(dataset, "/data", "run-data")
    assert source["persistentVolumeClaim"] == {"claimName": "run-data", "readOnly": True}
    assert "subPath" not in mount  # the driver mounts the path alone


def test_what_the_oss_driver_needs():
    dataset = Dataset(
        uri="oss://bucket/train", access="mount", secret="oss-keys", region="cn-hangzhou"
    )
    held, claim = persistent(dataset, "run-data", "team")
    assert held["spec"]["csi"] == {
        "driver": "ossplugin.csi.alibabacloud.com",
        "volumeHandle": "run-data",
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
    for part in (held, claim):
        assert part["spec"]["accessModes"] == ["ReadOnlyMany"]
        assert part["spec"]["storageClassName"] == ""


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
        "volumeHandle": "run-data",
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
