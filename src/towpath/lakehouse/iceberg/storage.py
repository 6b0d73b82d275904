"""How tables reach their files on a service: properties of pyiceberg, from the store's options.

So one setting is enough for brokers, workers and tables. Nothing of pyiceberg is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from towpath.objects.services import plain_name

NAMES: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "endpoint": "s3.endpoint",
        "region": "s3.region",
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "role_arn": "s3.role-arn",
        "role_session_name": "s3.role-session-name",
        "enable_virtual_host_style": "s3.force-virtual-addressing",
        "allow_anonymous": "s3.anonymous",
    },
    "gcs": {"endpoint": "gcs.service.host", "token": "gcs.oauth2.token"},
    "azblob": {
        "account_name": "adls.account-name",
        "account_key": "adls.account-key",
        "sas_token": "adls.sas-token",
    },
}
"""OpenDAL's names to pyiceberg's. What has no equal there is taken from the environment by both."""

REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
AZURE_DOMAIN = "dfs.core.windows.net"
"""Where the tables' names for files of an account end, whatever endpoint serves them."""


def storage_properties(
    objects_url: str, objects_options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """What pyiceberg needs to read and write what lies at `objects_url`; nothing for files."""
    scheme = urlsplit(objects_url).scheme
    options = {plain_name(name): value for name, value in objects_options.items()}
    names = NAMES.get(scheme, {})
    found = {names[name]: value for name, value in options.items() if name in names}
    if scheme == "s3":
        return {**_s3_defaults(options, environ), **found}
    if scheme == "azblob":
        return {**_azure_defaults(options), **found}
    return found


def with_storage(storage: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """The properties of a catalog: what was given for it wins, also by the names that mean every
    service of AWS (`client.region`)."""
    unneeded = {
        f"s3.{name.removeprefix('client.')}" for name in given if name.startswith("client.")
    }
    own = {name: value for name, value in storage.items() if name not in unneeded}
    return {**own, **given}


def azure_account(objects_options: Mapping[str, str]) -> str | None:
    """The storage account: its own option, or a part of the endpoint."""
    options = {plain_name(name): value for name, value in objects_options.items()}
    endpoint = urlsplit(options.get("endpoint", ""))
    first_label = (endpoint.hostname or "").partition(".blob.")
    by_endpoint = first_label[0] if first_label[1] else endpoint.path.strip("/")
    return options.get("account_name") or by_endpoint or None


def _s3_defaults(options: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    defaults = {}
    if "endpoint" in options and options.get("enable_virtual_host_style") != "true":
        # For Iceberg's Java library; pyiceberg and OpenDAL do it without being told.
        defaults["s3.path-style-access"] = "true"
    region = next((environ[name] for name in REGION_VARIABLES if environ.get(name)), None)
    if region is not None:
        # pyiceberg would ask Amazon where the bucket is.
        defaults["s3.region"] = region
    return defaults


def _azure_defaults(options: Mapping[str, str]) -> dict[str, str]:
    account = azure_account(options)
    defaults = {} if account is None else {"adls.account-name": account}
    endpoint = urlsplit(options.get("endpoint", ""))
    if endpoint.netloc and ".blob." not in endpoint.netloc:
        for kind in ("blob", "dfs"):
            defaults[f"adls.{kind}-storage-authority"] = endpoint.netloc
            defaults[f"adls.{kind}-storage-scheme"] = endpoint.scheme
    return defaults
