# PBS alone: hosts of a class that share a queue with others.
from storewise.schedulers.pbs import parse_selects
from storewise.study.host_classes import text_of


def node_selects():
    """By class of hosts, what tells them apart: the resource `node_selects` of rule `node`."""
    resources = workflow.resource_settings._parsed_overwrite_resources.get("node", {})
    try:
        return (
            parse_selects(text_of(resources["node_selects"].raw))
            if "node_selects" in resources
            else {}
        )
    except StorewiseError as error:
        raise WorkflowError(str(error))


NODE_SELECTS = node_selects()


def select_of_node(wildcards):
    return NODE_SELECTS.get(trial_of(wildcards).node_class, "")
