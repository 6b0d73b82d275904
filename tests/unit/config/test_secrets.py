"""Settings that hold other software's settings, and that their secrets are never shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from towpath.cli import config as config_command
from towpath.config import ConfigError, Settings, load_settings
from towpath.config.load import Given
from towpath.config.secrets import HIDDEN, is_secret, shown_properties

SECRET = "geheim"
S3 = "objects_url: s3://bucket/prefix\n"


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "towpath.yaml"
    path.write_text(text)
    return path


def flag(name: str, value: object) -> Given:
    return Given(name, value, f"flag --set {name}")


def test_a_mapping_in_the_file(tmp_path: Path) -> None:
    text = f"""{S3}
objects.options:
  endpoint: http://127.0.0.1:1
  secret-access-key: ${{KEY}}
iceberg:
  namespace: lake
  catalog:
    uri: http://127.0.0.1:2
    s3.region: eu-west-1
    towpath:
      table-names: safe
    name: ours
spark_conf:
  spark.cores.max: 2
"""
    settings = load_settings(write(tmp_path, text), environ={"KEY": SECRET}).settings
    assert settings.objects_options == {
        "endpoint": "http://127.0.0.1:1",
        "secret-access-key": SECRET,
    }
    assert settings.iceberg_catalog == {
        "uri": "http://127.0.0.1:2",
        "s3.region": "eu-west-1",
        "towpath.table-names": "safe",
    }
    assert (settings.iceberg_catalog_name, settings.iceberg_namespace) == ("ours", "lake")
    assert settings.spark_conf == {"spark.cores.max": "2"}
    assert "objects.options.endpoint" in settings.origin("objects_options")


def test_single_properties_as_flags() -> None:
    flags = [
        flag("objects.url", "s3://bucket"),
        flag("objects.options.endpoint", "http://x"),
        flag("objects_options.region", "auto"),
    ]
    settings = load_settings(flags=flags, environ={}).settings
    assert settings.objects_options == {"endpoint": "http://x", "region": "auto"}


def test_a_mapping_and_its_text_at_once_is_refused() -> None:
    flags = [flag("iceberg_catalog", "uri=http://x"), flag("iceberg_catalog.uri", "http://y")]
    with pytest.raises(ConfigError, match="iceberg_catalog is given twice"):
        load_settings(flags=flags, environ={})


def test_only_these_settings_have_properties() -> None:
    for name in ("kafka_port.x", "nonsense.x", "objects_url.x"):
        with pytest.raises(ConfigError, match="unknown setting"):
            load_settings(flags=[flag(name, "1")], environ={})


@pytest.mark.parametrize(
    "text", ['{"region": "r", "secret_access_key": "k"}', "region=r, secret_access_key=k"]
)
def test_a_mapping_in_the_environment(text: str) -> None:
    environ = {"TOWPATH_OBJECTS_URL": "s3://bucket", "TOWPATH_OBJECTS_OPTIONS": text}
    settings = load_settings(environ=environ).settings
    assert settings.objects_options == {"region": "r", "secret_access_key": "k"}


@pytest.mark.parametrize(
    "url",
    [
        "s3://",
        "s3:///prefix",
        f"s3://key:{SECRET}@bucket/prefix",
        f"s3://bucket/prefix?secret_access_key={SECRET}",
        f"gcs://bucket#{SECRET}",
        "azblob://container:1",
    ],
)
def test_a_url_names_a_bucket_and_nothing_else(url: str) -> None:
    with pytest.raises(ConfigError, match="objects_options") as failure:
        load_settings(environ={"TOWPATH_OBJECTS_URL": url})
    assert SECRET not in str(failure.value).replace(f"#{SECRET}", "")


def test_options_of_files_are_a_mistake() -> None:
    with pytest.raises(ConfigError, match="objects_options are for"):
        load_settings(environ={"TOWPATH_OBJECTS_OPTIONS": "region=r"})


@pytest.mark.parametrize(
    "text",
    [SECRET, f"a=b,{SECRET}", f'{{"a": {SECRET}', f'{{"secret": ["{SECRET}"]}}', f"[{SECRET}"],
)
def test_what_cannot_be_read_is_not_repeated(text: str) -> None:
    environ = {"TOWPATH_OBJECTS_URL": "s3://bucket", "TOWPATH_OBJECTS_OPTIONS": text}
    with pytest.raises(ConfigError, match="objects_options = ") as failure:
        load_settings(environ=environ)
    assert SECRET not in str(failure.value)
    assert SECRET not in str(failure.value.__cause__)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("secret_access_key", True),
        ("access_key_id", True),
        ("s3.session-token", True),
        ("credential", True),
        ("auth.basic.password", True),
        ("header.Authorization", True),
        ("adls.connection-string", True),
        ("endpoint", False),
        ("oauth2-server-uri", False),
        ("towpath.table-location", False),
    ],
)
def test_which_names_are_secrets(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_logins_in_urls_are_hidden() -> None:
    shown = shown_properties({"uri": f"postgresql://me:{SECRET}@host/db", "warehouse": "s3://x"})
    assert shown == {"uri": f"postgresql://{HIDDEN}@host/db", "warehouse": "s3://x"}


def test_settings_do_not_show_them_by_accident() -> None:
    settings = Settings(
        objects_url="s3://bucket",
        objects_options={"secret_access_key": SECRET},
        iceberg_catalog={"credential": SECRET},
        spark_conf={"spark.hadoop.fs.s3a.secret.key": SECRET},
    )
    assert SECRET not in repr(settings) + str(settings)


def test_config_show_hides_them(tmp_path: Path) -> None:
    text = f"""{S3}
objects_options: {{region: here, secret_access_key: {SECRET}}}
iceberg_catalog: {{uri: "http://me:{SECRET}@host", credential: "a:{SECRET}"}}
"""
    file = str(write(tmp_path, text))
    as_json = CliRunner().invoke(config_command.app, ["show", "--config", file, "--output", "json"])
    rows = {row["setting"]: row["value"] for row in json.loads(as_json.stdout)}
    assert rows["objects_options"] == {"region": "here", "secret_access_key": HIDDEN}
    assert rows["iceberg_catalog"] == {"uri": f"http://{HIDDEN}@host", "credential": HIDDEN}
    as_table = CliRunner().invoke(config_command.app, ["show", "--config", file])
    assert f"region=here,secret_access_key={HIDDEN}" in as_table.stdout
    assert SECRET not in as_json.output + as_table.output
