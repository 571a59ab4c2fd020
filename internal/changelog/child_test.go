package changelog

const childEnv = "CHANGELOG_TEST_CHILD"

func child() int { return 0 }
