"""A Cinder driver whose volumes hold nothing: no kernel module, no daemon."""
from cinder.volume import driver


class EmptyVolumes(driver.VolumeDriver):
    VERSION = "1"

    def check_for_setup_error(self):
        pass

    def create_volume(self, volume):
        pass

    def delete_volume(self, volume):
        pass

    def extend_volume(self, volume, new_size):
        pass

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector):
        return {"driver_volume_type": "fake", "data": {}}

    def terminate_connection(self, volume, connector, **kwargs):
        pass

    def _update_volume_stats(self):
        self._stats = {
            "volume_backend_name": self.configuration.safe_get("volume_backend_name"),
            "vendor_name": "test", "driver_version": self.VERSION, "storage_protocol": "fake",
            "total_capacity_gb": "infinite", "free_capacity_gb": "infinite",
            "reserved_percentage": 0, "QoS_support": False,
        }
