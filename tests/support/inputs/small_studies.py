"""The smallest studies that tests of refusals change."""

GOOD = """\
inputs: {paths: data}
engines: [sqlite]
phases:
  - write: {batch_size: 10}
  - read: {operations: 100}
"""
#: Aliases of aliases: a few lines that mean thousands of millions of values.
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 10)
)
OF_SERVERS = """\
inputs: {paths: data}
engines: [sqlite, postgres, mongodb]
factors: {nodes: [1, 2]}
phases:
  - write
  - read: {operations: 100}
"""
