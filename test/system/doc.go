// Package system tests the built binary as a black box: its commands by scripts, its server by killing it. It has tests
// only.
package system
