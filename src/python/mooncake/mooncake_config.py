"""Configuration of a store from a JSON file or the environment."""

import json
import os

from mooncake.sizes import parse_size

DEFAULT_GLOBAL_SEGMENT_SIZE = 3355443200
DEFAULT_LOCAL_BUFFER_SIZE = 1073741824

_TRUE = ("1", "true", "yes", "on")


def _truth(value):
    return value if isinstance(value, bool) else str(value).strip().lower() in _TRUE


class MooncakeConfig:
    """What setup() wants to know."""

    def __init__(self, local_hostname, metadata_server,
                 global_segment_size=DEFAULT_GLOBAL_SEGMENT_SIZE,
                 local_buffer_size=DEFAULT_LOCAL_BUFFER_SIZE, protocol="tcp", device_name="",
                 master_server_address=None, enable_ssd_offload=False, ssd_offload_path="",
                 tenant_id="default", enable_client_http_server=False, client_http_port=9300):
        if not master_server_address:
            raise ValueError("master_server_address is missing: write host:port of the master")
        self.local_hostname = local_hostname
        self.metadata_server = metadata_server
        self.global_segment_size = parse_size(global_segment_size)
        self.local_buffer_size = parse_size(local_buffer_size)
        self.protocol = protocol
        self.device_name = device_name or ""
        self.master_server_address = master_server_address
        self.enable_ssd_offload = _truth(enable_ssd_offload)
        self.ssd_offload_path = ssd_offload_path
        self.tenant_id = tenant_id
        self.enable_client_http_server = _truth(enable_client_http_server)
        self.client_http_port = int(client_http_port)

    _OPTIONAL = ("global_segment_size", "local_buffer_size", "protocol", "device_name",
                 "enable_ssd_offload", "ssd_offload_path", "tenant_id",
                 "enable_client_http_server", "client_http_port")

    @classmethod
    def from_file(cls, file_path):
        """From a JSON file. ValueError names what is missing or wrong."""
        with open(file_path, encoding="utf-8") as file:
            values = json.load(file)
        if not isinstance(values, dict):
            raise ValueError(f"{file_path}: one JSON object is expected")
        for name in ("local_hostname", "metadata_server", "master_server_address"):
            if not values.get(name):
                raise ValueError(f"Missing required config field: {name}")
        return cls(values["local_hostname"], values["metadata_server"],
                   master_server_address=values["master_server_address"],
                   **{name: values[name] for name in cls._OPTIONAL if name in values})

    @classmethod
    def load_from_env(cls):
        """From the file at MOONCAKE_CONFIG_PATH, else from the single variables."""
        path = os.getenv("MOONCAKE_CONFIG_PATH")
        if path:
            return cls.from_file(path)
        if not os.getenv("MOONCAKE_MASTER"):
            raise ValueError("Neither MOONCAKE_CONFIG_PATH nor MOONCAKE_MASTER is set")
        names = {"global_segment_size": "MOONCAKE_GLOBAL_SEGMENT_SIZE",
                 "local_buffer_size": "MOONCAKE_LOCAL_BUFFER_SIZE",
                 "protocol": "MOONCAKE_PROTOCOL", "device_name": "MOONCAKE_DEVICE",
                 "enable_ssd_offload": "MOONCAKE_ENABLE_SSD_OFFLOAD",
                 "ssd_offload_path": "MOONCAKE_SSD_OFFLOAD_PATH",
                 "tenant_id": "MOONCAKE_TENANT_ID"}
        return cls(os.getenv("MOONCAKE_LOCAL_HOSTNAME", "localhost"),
                   os.getenv("MOONCAKE_TE_META_DATA_SERVER", "P2PHANDSHAKE"),
                   master_server_address=os.environ["MOONCAKE_MASTER"],
                   **{name: os.environ[variable] for name, variable in names.items()
                      if os.getenv(variable)})
