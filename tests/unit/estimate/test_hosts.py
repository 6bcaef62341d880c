"""Hours of hosts that start when needed and end when idle, counted by hand."""

import pytest

from storewise.estimate.host_hours import Stay, Use, occupied

H = 3600.0


def test_on_a_cluster_of_ones_own_hosts_count_while_they_are_used():
    stays = [Stay(H, {"data": 3, "work": 1}), Stay(2 * H, {"data": 1, "work": 1})]
    uses = {"data": Use(busy=5, starts=3, most=3), "work": Use(busy=3, starts=1, most=1)}
    assert occupied(stays) == (uses, 3 * H)
    # Trials at a time have hosts of their own.
    stays = [Stay(H, {"data": 1}), Stay(2 * H, {"data": 1}), Stay(H, {"data": 1})]
    uses, seconds = occupied(stays, lanes=2, start_up=0.5 * H, idle=H)
    assert seconds == pytest.approx(2.5 * H)
    data = uses["data"]
    assert (data.starts, data.most, data.busy, data.starting) == pytest.approx((2, 2, 4, 1))


def test_hosts_start_once_and_wait_for_the_next_trial_until_they_end():
    # Three hosts start (0.1 h), two of them are not needed then and end after 0.2 h.
    stays = [Stay(H, {"data": 3}), Stay(2 * H, {"data": 1}), Stay(H, {"data": 2})]
    uses, seconds = occupied(stays, start_up=0.1 * H, idle=0.2 * H)
    result = uses["data"]
    assert seconds == pytest.approx(4.2 * H)
    assert result.busy == pytest.approx(3 + 2 + 2)
    assert (result.starts, result.most) == (4, 3)
    assert result.starting == pytest.approx(0.4)
    # Two that end, the first one while the second start waits, two at the end.
    assert result.idle == pytest.approx(2 * 0.2 + 0.1 + 2 * 0.2)
    assert result.hours == pytest.approx(result.busy + result.starting + result.idle)


def test_who_was_idle_shortest_is_taken_and_the_end_is_that_of_the_longest():
    stays = [Stay(4 * H, {"data": 1}), Stay(H, {"data": 1}), Stay(H, {"data": 1})]
    uses, seconds = occupied(stays, lanes=2, idle=9 * H)
    # The third follows the second on its host; the first ends last, 2 h after these.
    assert (seconds, uses["data"].starts, uses["data"].busy) == (4 * H, 2, 6)
    assert uses["data"].idle == pytest.approx(2 * 9)
    # At 4 h one host is idle since 1 h, the other since 2 h: the second is taken.
    stays = [(1, {"data": 2}), (1, {"data": 1}), (2, {"work": 1}), (1, {"data": 1})]
    uses, seconds = occupied([Stay(hours * H, hosts) for hours, hosts in stays], idle=3 * H)
    assert (seconds, uses["data"].starts) == (5 * H, 2)
    # Its 2 h, and of both at the end what is left until they go: the other one went at 4 h.
    assert uses["data"].idle == pytest.approx(2 + 3 + 3)
    assert occupied([], start_up=1, idle=1) == ({}, 0.0)


def test_a_host_ends_after_its_idle_time_and_not_before():
    for pause, starts in ((2.0, 1), (2.001, 2)):
        stays = [Stay(H, {"a": 1}), Stay(pause * H, {"b": 1}), Stay(H, {"a": 1})]
        uses, _ = occupied(stays, idle=2 * H)
        assert uses["a"].starts == starts
        assert uses["a"].idle == pytest.approx(4)
