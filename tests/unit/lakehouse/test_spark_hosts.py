"""Which address a driver binds, and by which its executors call it."""

from __future__ import annotations

from pathlib import Path

import pytest

from towpath.lakehouse.java import Java
from towpath.lakehouse.runners.spark_conf import environment, session_conf
from towpath.lakehouse.runners.spark_directory import SessionDirectory
from towpath.lakehouse.runners.spark_settings import SparkSettings, seen_by


def settings(master: str, **conf: str) -> SparkSettings:
    named = {name.replace("_", "."): value for name, value in conf.items()}
    return SparkSettings(Path("/nowhere"), master=master, conf=named)


@pytest.mark.parametrize("master", ["local", "local[*,4]", "spark://127.0.0.1:7077"])
def test_on_one_machine_nobody_else_is_let_in(master: str) -> None:
    assert settings(master).driver_hosts == ("127.0.0.1", "127.0.0.1")


def test_the_user_has_the_last_word() -> None:
    told = settings("spark://127.0.0.1:7077", spark_driver_host="10.0.0.5")
    assert told.driver_hosts == ("10.0.0.5", "10.0.0.5")
    both = settings("yarn", spark_driver_host="driver", spark_driver_bindAddress="0.0.0.0")
    assert both.driver_hosts == ("0.0.0.0", "driver")


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host:6443", "spark://no such host:1"])
def test_otherwise_spark_finds_its_own(master: str, tmp_path: Path) -> None:
    given = settings(master)
    assert given.driver_hosts is None
    assert seen_by(master) is None
    directory = SessionDirectory.make(tmp_path)
    conf = session_conf(given, directory)
    directory.remove()
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & conf.keys()
    assert "SPARK_LOCAL_IP" not in environment(given, Java(Path("/java"), 21, packaged=True), {})


def test_several_masters_are_asked_by_the_first() -> None:
    assert seen_by("spark://127.0.0.1:7077,other:7077") == "127.0.0.1"
