package segment_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/internal/delta/segment"
	"sluice/internal/sluice"
)

const uuid1, uuid2 = "3a0d65cd-4056-49b8-937b-95f9e3ee90e5", "80a083e8-7026-4e79-81be-64bd76c43a11"

// listing makes a log of names in short: `3.json`, `3.checkpoint.parquet`, `3.checkpoint.1.2.parquet` with numbers written
// out, an empty file with a leading `0:`.
func listing(t *testing.T, names ...string) *segment.Log[string] {
	t.Helper()
	var files []segment.File[string]
	for _, name := range names {
		size := int64(1)
		if rest, ok := strings.CutPrefix(name, "0:"); ok {
			name, size = rest, 0
		}
		n, ok := segment.ParseName(long(name))
		if !ok {
			t.Fatalf("%s is ignored", name)
		}
		files = append(files, segment.File[string]{Name: n, Size: size, Of: name})
	}
	rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
	return segment.New(files)
}

func long(name string) string {
	var version, part, parts int
	if n, _ := fmt.Sscanf(name, "%d.checkpoint.%d.%d.parquet", &version, &part, &parts); n == 3 {
		return fmt.Sprintf("%020d.checkpoint.%010d.%010d.parquet", version, part, parts)
	}
	number, rest, _ := strings.Cut(name, ".")
	return strings.Repeat("0", 20-len(number)) + number + "." + rest
}

func commits(from, to int) (names []string) {
	for v := from; v <= to; v++ {
		names = append(names, fmt.Sprintf("%d.json", v))
	}
	return names
}

func describe(s segment.Segment[string]) string {
	text := ""
	if s.Checkpoint != nil {
		for _, f := range s.Checkpoint.Files {
			text += f.Of + " "
		}
	}
	for _, f := range s.Commits {
		text += fmt.Sprintf("%d ", f.Version)
	}
	return strings.TrimSpace(text)
}

// Case 1: names that mean nothing are ignored.
func TestCase01_StrayFiles(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"0000000000000000001.json", "000000000000000000001.json", "00000000000000000001.json.tmp", ".00000000000000000001.json.crc",
		"00000000000000000001.json.crc", "00000000000000000001.00000000000000000003.compacted.json", "_last_checkpoint",
		"_staged_commits/00000000000000000001." + uuid1 + ".json", "00000000000000000001.checkpoint", "00000000000000000001.checkpoint.json",
		"00000000000000000001.checkpoint.0000000000.0000000002.parquet", "00000000000000000001.checkpoint.0000000003.0000000002.parquet",
		"00000000000000000001.checkpoint.1.2.parquet", "00000000000000000001.checkpoint." + uuid1 + ".txt", "00000000000000000001.checkpoint." + uuid1[1:] + ".json",
		"00000000000000000001.checkpoint.0000000001.0000000002.json", "0000000000000000000a.json", "", "00000000000000000001", "99999999999999999999.json",
		"00000000000000000001.checkpoint.0000000001.9999999999.parquet", "00000000000000000001.JSON",
	} {
		if n, ok := segment.ParseName(name); ok {
			t.Errorf("%s is taken for %+v", name, n)
		}
	}
	for name, want := range map[string]segment.Name{
		"00000000000000000012.json":                                     {Kind: segment.Commit, Version: 12},
		"00000000000000000012.crc":                                      {Kind: segment.Checksum, Version: 12},
		"00000000000000000012.checkpoint.parquet":                       {Kind: segment.Classic, Version: 12},
		"00000000000000000012.checkpoint.0000000002.0000000003.parquet": {Kind: segment.Multipart, Version: 12, Part: 2, Parts: 3},
		"00000000000000000012.checkpoint." + uuid1 + ".json":            {Kind: segment.V2JSON, Version: 12, UUID: uuid1},
		"00000000000000000012.checkpoint." + uuid1 + ".parquet":         {Kind: segment.V2Parquet, Version: 12, UUID: uuid1},
		"09223372036854775807.json":                                     {Kind: segment.Commit, Version: 1<<63 - 1},
	} {
		if n, ok := segment.ParseName(name); !ok || n != want {
			t.Errorf("%s: %+v, %t", name, n, ok)
		}
	}
}

func TestStartLeavesOutOlderVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		start int64
		name  string
		after bool
	}{
		{10, "10.json", true}, {10, "10.checkpoint.parquet", true}, {10, "9.json", false}, {10, "9.crc", false}, {10, "100.json", true}, {1, "0.json", false}, {0, "0.json", true},
	} {
		if got := long(c.name) > segment.Start(c.start); got != c.after {
			t.Errorf("%s after the start at %d: %t", c.name, c.start, got)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	tableB := slices.Concat(commits(0, 6), commits(8, 13), []string{"10.checkpoint.parquet"})
	for name, c := range map[string]struct {
		names   []string
		version int64
		want    string // a description, or the end of a code
	}{
		"commits only":                      {commits(0, 2), 2, "0 1 2"},
		"an older version":                  {commits(0, 2), 1, "0 1"},
		"4: above the latest":               {commits(0, 2), 3, "VERSION-NOT-FOUND"},
		"4: before the oldest":              {slices.Concat(commits(3, 5), []string{"3.checkpoint.parquet"}), 2, "VERSION-UNAVAILABLE"},
		"newest checkpoint wins":            {slices.Concat(commits(0, 5), []string{"2.checkpoint.parquet", "4.checkpoint.parquet"}), 5, "4.checkpoint.parquet 5"},
		"newest checkpoint not above":       {slices.Concat(commits(0, 5), []string{"2.checkpoint.parquet", "4.checkpoint.parquet"}), 3, "2.checkpoint.parquet 3"},
		"no JSON at the checkpoint":         {[]string{"2.checkpoint.parquet", "3.json"}, 3, "2.checkpoint.parquet 3"},
		"gap before the checkpoint":         {[]string{"0.json", "2.checkpoint.parquet", "3.json"}, 3, "2.checkpoint.parquet 3"},
		"3: only a checkpoint":              {[]string{"2.checkpoint.parquet"}, 2, "2.checkpoint.parquet"},
		"checkpoint newer than the commits": {slices.Concat(commits(0, 1), []string{"2.checkpoint.parquet"}), 2, "2.checkpoint.parquet"},
		"5: begins with 41":                 {commits(41, 45), 45, "VERSION-UNAVAILABLE"},
		"5: 5 of 0 to 9 is missing":         {slices.Concat(commits(0, 4), commits(6, 9)), 9, "LOG-GAP"},
		"5: below the gap":                  {slices.Concat(commits(0, 4), commits(6, 9)), 4, "0 1 2 3 4"},
		"5: the gap itself":                 {slices.Concat(commits(0, 4), commits(6, 9)), 5, "LOG-GAP"},
		"6: before the gap":                 {tableB, 6, "0 1 2 3 4 5 6"},
		"6: behind the gap":                 {tableB, 8, "VERSION-UNAVAILABLE"},
		"6: the last before the checkpoint": {tableB, 9, "VERSION-UNAVAILABLE"},
		"6: the checkpoint":                 {tableB, 10, "10.checkpoint.parquet"},
		"6: after the checkpoint":           {tableB, 13, "10.checkpoint.parquet 11 12 13"},
		"gap after the checkpoint":          {[]string{"2.checkpoint.parquet", "3.json", "5.json"}, 5, "LOG-GAP"},
		"11: a part is missing":             {slices.Concat(commits(0, 3), []string{"2.checkpoint.1.2.parquet"}), 3, "0 1 2 3"},
		"11: an older one takes its place":  {slices.Concat(commits(0, 3), []string{"1.checkpoint.parquet", "2.checkpoint.1.2.parquet"}), 3, "1.checkpoint.parquet 2 3"},
		"11: two sets, one complete":        {[]string{"2.checkpoint.1.2.parquet", "2.checkpoint.1.3.parquet", "2.checkpoint.2.3.parquet", "2.checkpoint.3.3.parquet"}, 2, "2.checkpoint.1.3.parquet 2.checkpoint.2.3.parquet 2.checkpoint.3.3.parquet"},
		"11: two complete sets":             {[]string{"2.checkpoint.1.2.parquet", "2.checkpoint.2.2.parquet", "2.checkpoint.1.1.parquet"}, 2, "2.checkpoint.1.2.parquet 2.checkpoint.2.2.parquet"},
		"12: an empty checkpoint":           {slices.Concat(commits(0, 2), []string{"0:1.checkpoint.parquet"}), 2, "0 1 2"},
		"12: an empty part":                 {slices.Concat(commits(0, 2), []string{"1.checkpoint.1.2.parquet", "0:1.checkpoint.2.2.parquet"}), 2, "0 1 2"},
		"uuid before parts before one file": {[]string{"2.checkpoint.parquet", "2.checkpoint.1.1.parquet", "2.checkpoint." + uuid1 + ".json"}, 2, "2.checkpoint." + uuid1 + ".json"},
		"the greater uuid":                  {[]string{"2.checkpoint." + uuid2 + ".parquet", "2.checkpoint." + uuid1 + ".json"}, 2, "2.checkpoint." + uuid2 + ".parquet"},
		"nothing":                           {nil, 0, "NOT-A-TABLE"},
		"43: a checksum alone":              {[]string{"0.crc"}, 0, "NOT-A-TABLE"},
	} {
		s, err := listing(t, c.names...).Choose(c.version)
		if got := describe(s); err == nil && got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		} else if err != nil && sluice.CodeOf(err) != sluice.Code("SLUICE-DELTA-"+c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// Case 19: what cannot be decoded is passed over; if there is nothing else, that is the error.
func TestCase19_BadCheckpoints(t *testing.T) {
	t.Parallel()
	choose := func(l *segment.Log[string], version int64) string {
		for {
			s, err := l.Choose(version)
			switch {
			case err != nil:
				return string(sluice.CodeOf(err))
			case s.Checkpoint == nil || s.Checkpoint.Version == 1:
				return describe(s)
			}
			s.Checkpoint.MarkBad()
		}
	}
	if got := choose(listing(t, slices.Concat(commits(0, 3), []string{"2.checkpoint.parquet", "3.checkpoint.1.1.parquet"})...), 3); got != "0 1 2 3" {
		t.Errorf("with all commits: %s", got)
	}
	if got := choose(listing(t, slices.Concat(commits(1, 3), []string{"1.checkpoint.parquet", "2.checkpoint.parquet"})...), 3); got != "1.checkpoint.parquet 2 3" {
		t.Errorf("with an older one: %s", got)
	}
	if got := choose(listing(t, slices.Concat(commits(2, 3), []string{"2.checkpoint.parquet"})...), 3); got != "SLUICE-DELTA-CHECKPOINT-CORRUPT" {
		t.Errorf("with nothing else: %s", got)
	}
}

func TestEarliestIsTheOldestThatCanBeRead(t *testing.T) {
	t.Parallel()
	for want, names := range map[int64][]string{
		0: commits(0, 3), 2: {"2.checkpoint.parquet", "3.json", "5.checkpoint.parquet"}, -1: commits(4, 5),
	} {
		if got := listing(t, names...).Earliest(); got != want {
			t.Errorf("%v: %d", names, got)
		}
	}
}

func FuzzParseName(f *testing.F) {
	f.Add("00000000000000000012.checkpoint.0000000002.0000000003.parquet")
	f.Add("00000000000000000012.checkpoint." + uuid1 + ".json")
	f.Fuzz(func(t *testing.T, name string) {
		if n, ok := segment.ParseName(name); ok && (n.Version < 0 || n.Kind == segment.Multipart && (n.Part < 1 || n.Part > n.Parts)) {
			t.Fatalf("%q: %+v", name, n)
		}
	})
}
