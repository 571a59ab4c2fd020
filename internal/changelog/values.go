package changelog

import "time"

// Values is the list of an include_values filter.
type Values struct {
	Version int64     `json:"version"`
	Values  []string  `json:"values"`
	Kind    string    `json:"kind"` // type of the elements in the answer: string, number
	At      time.Time `json:"at"`
}
