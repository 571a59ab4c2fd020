package config_test

import (
	"errors"
	"slices"
	"testing"

	"sluice/internal/config"
)

func TestAccessToObjectsIsChecked(t *testing.T) {
	t.Parallel()
	const secret = "store.credentials.secret"
	for name, c := range map[string]struct {
		set   map[string]string
		wrong []string
	}{
		"nothing set": {nil, nil},
		"static": {map[string]string{
			"store.endpoint": "http://127.0.0.1:7070", "store.path_style": "true", "store.credentials.mode": "static",
			"store.credentials.key_id": "k", secret: "env:S",
		}, nil},
		"static without keys": {map[string]string{"store.credentials.mode": "static"}, []string{"store.credentials.key_id", secret}},
		"keys without static": {map[string]string{"store.credentials.key_id": "k", secret: "env:S"}, []string{"store.credentials.key_id", secret}},
		"a literal secret":    {map[string]string{"store.credentials.mode": "static", "store.credentials.key_id": "k", secret: "abc"}, []string{secret}},
		"role":                {map[string]string{"store.credentials.mode": "assume_role", "store.credentials.role": "arn:aws:iam::1:role/r"}, nil},
		"role without its name": {
			map[string]string{"store.credentials.mode": "assume_role", "store.credentials.session": "5m"},
			[]string{"store.credentials.role", "store.credentials.session"},
		},
		"other words": {map[string]string{
			"store.credentials.mode": "magic", "store.path_style": "maybe", "store.endpoint": "https://user:word@host", "delta.strict": "2",
			"delta.partition_timezone": "Mars/Olympus", "delta.commit_keys.run_id": "",
		}, []string{
			"delta.commit_keys.run_id", "delta.partition_timezone", "delta.strict", "store.credentials.mode", "store.endpoint", "store.path_style",
		}},
		"roots":               {map[string]string{"delta.allowed_roots": "s3://b/x profile=p, /a, file:///b, s3://c"}, nil},
		"wrong roots":         {map[string]string{"delta.allowed_roots": "http://h/x"}, []string{"delta.allowed_roots"}},
		"a profile for files": {map[string]string{"delta.allowed_roots": "/a profile=p"}, []string{"delta.allowed_roots"}},
	} {
		_, err := config.Load(config.Sources{NoFile: true, Environ: []string{}, Set: c.set})
		var got []string
		var problems config.Problems
		if errors.As(err, &problems) {
			for _, p := range problems {
				got = append(got, p.Path)
			}
		} else if err != nil {
			t.Error(name, err)
		}
		slices.Sort(got)
		if !slices.Equal(slices.Compact(got), c.wrong) {
			t.Errorf("%s: wrong are %v, want %v: %v", name, got, c.wrong, err)
		}
	}
}

func TestAllowedRootsMayHaveAProfile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]config.AllowedRoot{
		"s3://b/x":              {URI: "s3://b/x"},
		"s3://b/x y profile=ro": {URI: "s3://b/x y", Profile: "ro"},
	} {
		if got := config.ParseAllowedRoot(text); got != want {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}
