from agon.verifiers.sandbox import is_isolated, isolation_report, report


def test_the_report_is_of_layers_that_a_program_ran_under():
    found = isolation_report()
    assert found[-1] == ("a program runs", True, "")
    assert is_isolated(found), found
    assert isolation_report() is found


def test_another_system_is_reported_as_such(monkeypatch):
    monkeypatch.setattr(report, "is_supported", lambda: False)
    (only,) = report.isolation_report.__wrapped__()
    assert (only.is_in_force, is_isolated([only])) == (False, False)
    assert "64-bit Linux" in only.detail
