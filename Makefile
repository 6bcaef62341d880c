env:
	test -x .venv/bin/python || python3 -m venv .venv
