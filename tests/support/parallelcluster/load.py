"""Loads a ParallelCluster configuration from standard input with ParallelCluster's own schema.

Run by the Python of the environment beside this file's requirements.txt. Prints, as JSON, what
ParallelCluster makes of it: its own defaults count where the file is silent. Ends with status 1 and
the schema's messages where it refuses the file. Nothing here asks AWS.
"""

import json
import os
import sys

# botocore wants a region before the configuration tells one.
os.environ["AWS_DEFAULT_REGION"] = "us-east-1"

from marshmallow import ValidationError
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.utils import yaml_load
from pcluster.validators.slurm_settings_validator import SLURM_SETTINGS_DENY_LIST


def access(iam):
    """Buckets of a role: name -> whether it may write; policies by ARN under `policies`."""
    return {
        "buckets": {a.bucket_name: bool(a.enable_write_access) for a in iam.s3_access or ()},
        "policies": [policy.policy for policy in iam.additional_iam_policies or ()],
    }


def action(custom):
    """The script of an instance that is set up, and its arguments."""
    result = custom.on_node_configured if custom else None
    return [result.script, *(result.args or ())] if result else []


def networking(result):
    return {
        "security_groups": result.security_groups,
        "additional_security_groups": result.additional_security_groups,
    }


def queue(result):
    storage = result.compute_settings.local_storage
    return {
        "name": result.name,
        "spot": result.capacity_type.value == "SPOT",
        "subnets": result.networking.subnet_ids,
        "networking": networking(result.networking),
        "resources": [
            {
                "types": list(resource.instance_types),
                "min": resource.min_count,
                "max": resource.max_count,
                "placement_group": result.is_placement_group_enabled_for_compute_resource(resource),
            }
            for resource in result.compute_resources
        ],
        "scratch": storage.ephemeral_volume.mount_dir if storage.ephemeral_volume else None,
        "root": {"size": storage.root_volume.size, "encrypted": storage.root_volume.encrypted},
        "access": access(result.iam),
        "action": action(result.custom_actions),
    }


def told(cluster):
    head, slurm = cluster.head_node, cluster.scheduling.settings
    return {
        "region": cluster.config_region,
        "os": cluster.image.os,
        "bucket": cluster.custom_s3_bucket,
        "tags": {tag.key: tag.value for tag in cluster.tags or ()},
        "imds": cluster.imds.imds_support,
        "head": {
            "type": head.instance_type,
            "subnet": head.networking.subnet_id,
            "networking": networking(head.networking),
            "allowed_ips": head.ssh.allowed_ips,
            "key_name": head.ssh.key_name,
            "desktop": bool(head.dcv and head.dcv.enabled),
            "secured": head.imds.secured,
            "access": access(head.iam),
            "action": action(head.custom_actions),
        },
        "login_nodes": bool(cluster.login_nodes),
        "idle_minutes": slurm.scaledown_idletime,
        "slurm": {k: v for one in slurm.custom_slurm_settings or () for k, v in one.items()},
        "denied": SLURM_SETTINGS_DENY_LIST["SlurmConf"]["Global"],
        "queues": [queue(one) for one in cluster.scheduling.queues],
        "storage": [
            {
                "name": one.name,
                "mount": one.mount_dir,
                "type": one.shared_storage_type.value,
                "deletion": one.deletion_policy,
                "snapshot": getattr(one, "snapshot_id", None),
            }
            for one in cluster.shared_storage or ()
        ],
        "logs": {
            "deletion": cluster.monitoring.logs.cloud_watch.deletion_policy,
            "dashboard": cluster.monitoring.dashboards.cloud_watch.enabled,
        },
    }


def main():
    try:
        cluster = ClusterSchema(cluster_name="storewise").load(yaml_load(sys.stdin))
    except ValidationError as error:
        sys.exit(f"ParallelCluster refuses it: {json.dumps(error.messages, default=str)}")
    json.dump(told(cluster), sys.stdout, indent=1)


if __name__ == "__main__":
    main()
