package control

import (
	"fmt"

	"sluice/internal/sluice"
)

// checkVersion compares the version that a caller has seen with the present one; 0 means that it does not care.
func checkVersion(doing string, seen, now int64) error {
	if seen == 0 || seen == now {
		return nil
	}
	return sluice.E("SLUICE-CONTROL-CONFLICT", doing, fmt.Sprintf("it has version %d, the change was made for version %d", now, seen),
		"read it again and repeat the change", nil)
}

// CheckVersion is checkVersion for other stores with rows that have a version.
func CheckVersion(doing string, seen, now int64) error { return checkVersion(doing, seen, now) }

func refused(doing, what, hint string) error {
	return sluice.E("SLUICE-CONTROL-REFUSED", doing, what, hint, nil)
}
