"""Validates ParallelCluster configurations as `pcluster create-cluster` does before all else.

Run by the Python of the environment beside this file's requirements.txt, with moto as AWS
(``AWS_ENDPOINT_URL``). Reads a list of configurations, as JSON, from standard input; prints for
each what ParallelCluster's validators would stop at: ``VALIDATOR: message``.
"""

import json
import sys

import boto3
from pcluster.aws.aws_api import AWSApi
from pcluster.config.common import TypeMatchValidatorsSuppressor
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.utils import yaml_load
from pcluster.validators.common import FailureLevel, ValidatorContext

#: These start instances as a dry run, with ParallelCluster's block devices, which moto cannot.
WITHOUT = {"HeadNodeLaunchTemplateValidator", "ComputeResourceLaunchTemplateValidator"}


def image():
    """Any image that moto has: it has none of ParallelCluster's."""
    for result in boto3.client("ec2").describe_images()["Images"]:
        virtual = result["VirtualizationType"] == "hvm" and result.get("Architecture") == "x86_64"
        if virtual and any("Ebs" in device for device in result["BlockDeviceMappings"]):
            return result["ImageId"]
    raise LookupError("moto has no image with an EBS volume")


def errors(text):
    values = yaml_load(text)
    cluster = ClusterSchema(cluster_name="storewise").load(values)
    cluster.source_config = values
    result = cluster.validate({TypeMatchValidatorsSuppressor(WITHOUT)}, ValidatorContext())
    return [
        f"{one.validator_type}: {one.message}" for one in result if one.level == FailureLevel.ERROR
    ]


def main():
    chosen = image()
    AWSApi.instance().ec2.get_official_image_id = lambda *_, **__: chosen
    json.dump([errors(text) for text in json.load(sys.stdin)], sys.stdout)


if __name__ == "__main__":
    main()
