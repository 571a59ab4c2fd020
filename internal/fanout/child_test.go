package fanout

const childEnv = "SLUICE_TEST_FANOUT"

func child() int { return 0 }
