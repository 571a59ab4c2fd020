package backfill

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/sluice"
	"sluice/internal/stream"
)

func same(n int, size int64) []File {
	out := make([]File, n)
	for i := range out {
		out[i] = File{Path: fmt.Sprintf("f%05d", i), Size: size}
	}
	return out
}

func counts(chunks [][]File) string {
	var out []string
	for _, c := range chunks {
		out = append(out, fmt.Sprint(len(c)))
	}
	return strings.Join(out, " ")
}

func TestCutVectors(t *testing.T) {
	t.Parallel()
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		name  string
		files []File
		want  string
	}{
		{"10 × 256 MiB", same(10, 256*mib), "4 4 2"},
		{"one that is larger than a chunk", []File{{Path: "a", Size: mib}, {Path: "b", Size: 5 * gib}, {Path: "c", Size: mib}}, "1 1 1"},
		{"1,300 × 1 KiB", same(1300, 1024), "512 512 276"},
		{"none", nil, ""},
		{"deleted positions", []File{{Path: "a", Deleted: 15_000_000}, {Path: "b", Deleted: 6_000_000}, {Path: "c", Deleted: 14_000_000}}, "1 2"},
	} {
		if got := counts(Cut(c.files, InsertLimits)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCutKeepsEachFileOnce(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		l := Limits{Bytes: 1 + rng.Int64N(1000), Files: 1 + rng.IntN(10), Deleted: 1 + rng.Int64N(100)}
		var files []File
		for i := range rng.IntN(200) {
			f := File{Path: fmt.Sprintf("p%d", i), Size: rng.Int64N(400), Deleted: rng.Int64N(30), Rows: 1}
			if rng.IntN(3) > 0 {
				v := fmt.Sprint(rng.IntN(4))
				f.Partition = []*string{&v}
			} else {
				f.Partition = []*string{nil}
			}
			files = append(files, f)
		}
		chunks := Cut(files, l)
		seen := map[string]bool{}
		for _, c := range chunks {
			s := Sum(c)
			if len(c) == 0 || len(c) > l.Files || len(c) > 1 && (s.Bytes > l.Bytes || s.Deleted > l.Deleted) {
				t.Fatalf("chunk %+v breaks %+v", s, l)
			}
			for _, f := range c {
				if seen[f.Path] {
					t.Fatalf("%s twice", f.Path)
				}
				seen[f.Path] = true
			}
		}
		if len(seen) != len(files) {
			t.Fatalf("%d of %d files", len(seen), len(files))
		}
		rng.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		if Hash(Cut(files, l)) != Hash(chunks) {
			t.Fatal("another order of files gives another plan")
		}
		if len(files) > 1 && Hash(Cut(files[1:], l)) == Hash(chunks) {
			t.Fatal("another list has the same hash")
		}
	}
}

func TestCover(t *testing.T) {
	t.Parallel()
	named := Commits{Named: map[Key]int64{{"r1", 0}: 3, {"r1", 1}: 4, {"future", 7}: 5}}
	b := func(run string, index int64, up sluice.UpstreamState, applied bool) Batch {
		return Batch{Key{sluice.RunID(run), index}, up, applied}
	}
	for _, c := range []struct {
		name                               string
		f                                  CoverFacts
		covered, unproven, behind, waiting string
	}{
		{"named by commits, queued or not", CoverFacts{Head: true, Commits: named, Batches: []Batch{
			b("r1", 0, sluice.UpstreamSucceeded, false), b("r1", 1, sluice.UpstreamWaiting, false), b("r1", 2, sluice.UpstreamWaiting, false),
		}}, "future:7/commit r1:0/commit r1:1/commit", "", "", ""},
		{"commits name nothing, upstream reports", CoverFacts{Head: true, Version: 9, Batches: []Batch{
			b("r1", 0, sluice.UpstreamSucceeded, false), b("r1", 1, sluice.UpstreamWaiting, false), b("r1", 2, sluice.UpstreamFailed, false),
		}}, "r1:0/order", "", "", ""},
		{"the same with an older version", CoverFacts{Batches: []Batch{b("r1", 0, sluice.UpstreamSucceeded, false)}}, "", "r1:0", "", ""},
		{"no report at all", CoverFacts{Head: true, Batches: []Batch{b("r1", 0, sluice.UpstreamNone, false)}}, "", "r1:0", "", ""},
		{"answer all", CoverFacts{Head: true, Answer: Answer{Given: true, All: true}, Batches: []Batch{b("r1", 0, sluice.UpstreamNone, false)}}, "r1:0/operator", "", "", ""},
		{"answer none", CoverFacts{Head: true, Answer: Answer{Given: true}, Batches: []Batch{b("r1", 0, sluice.UpstreamNone, false)}}, "", "", "", ""},
		{"answer list", CoverFacts{Head: true, Answer: Answer{Given: true, Keys: map[Key]bool{{"r1", 1}: true}}, Batches: []Batch{
			b("r1", 0, sluice.UpstreamNone, false), b("r1", 1, sluice.UpstreamNone, false),
		}}, "r1:1/operator", "", "", ""},
		{"applied batches are in the newest version if upstream had them", CoverFacts{Head: true, Batches: []Batch{b("r1", 0, sluice.UpstreamSucceeded, true)}}, "", "", "", ""},
		{"applied, older version, not named", CoverFacts{Commits: named, Batches: []Batch{b("r1", 0, sluice.UpstreamSucceeded, true), b("r2", 0, sluice.UpstreamSucceeded, true)}}, "future:7/commit r1:0/commit r1:1/commit", "", "r2:0", ""},
		{"applied, no report", CoverFacts{Head: true, Batches: []Batch{b("r2", 0, sluice.UpstreamNone, true)}}, "", "", "r2:0", ""},
		{"applied, answered", CoverFacts{Answer: Answer{Given: true, All: true}, Batches: []Batch{b("r2", 0, sluice.UpstreamNone, true)}}, "", "", "", ""},
		{"append without names waits for the report", CoverFacts{Head: true, Append: true, Batches: []Batch{b("r1", 0, sluice.UpstreamWaiting, false)}}, "", "", "", "r1:0"},
		{"append with names does not", CoverFacts{Head: true, Append: true, Commits: named, Batches: []Batch{b("r1", 5, sluice.UpstreamWaiting, false)}}, "future:7/commit r1:0/commit r1:1/commit", "", "", ""},
	} {
		got := Cover(c.f)
		var covered []string
		for _, x := range got.Covered {
			covered = append(covered, Key{x.RunID, x.BatchIndex}.String()+"/"+x.Proof)
		}
		join := func(keys []Key) string {
			return strings.ReplaceAll(list(keys), ", ", " ")
		}
		if strings.Join(covered, " ") != c.covered || join(got.Unproven) != c.unproven || join(got.Behind) != c.behind || join(got.Waiting) != c.waiting {
			t.Errorf("%s: covered %v, unproven %v, behind %v, waiting %v", c.name, covered, got.Unproven, got.Behind, got.Waiting)
		}
		if e := got.Refusal("plan"); (e != nil) != (c.unproven != "" || c.behind != "") {
			t.Errorf("%s: refusal %v", c.name, e)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	a, err := ParseAnswer("2026-03-01T02:00:3,r:0")
	if err != nil || !a.covers(Key{"2026-03-01T02:00", 3}) || !a.covers(Key{"r", 0}) || a.covers(Key{"r", 1}) {
		t.Fatalf("%+v, %v", a, err)
	}
	for _, bad := range []string{"r", "r:", ":1", "r:-1", "r:x", "r:1,"} {
		if _, err := ParseAnswer(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestGrant(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	two := int64(2)
	w := func(plan, org string, minute int, mods ...func(*stream.SlotCandidate)) stream.SlotCandidate {
		c := stream.SlotCandidate{PlanID: plan, Org: sluice.Org(org), WantedAt: at.Add(time.Duration(minute) * time.Minute)}
		for _, m := range mods {
			m(&c)
		}
		return c
	}
	for _, c := range []struct {
		name    string
		caps    Caps
		used    map[sluice.Org]int
		waiting []stream.SlotCandidate
		want    string
	}{
		{"orgs in turn, longest waiting first", Caps{5, 1}, nil, []stream.SlotCandidate{w("a1", "a", 0), w("a2", "a", 1), w("b1", "b", 2)}, "a1 b1"},
		{"global cap", Caps{2, 9}, nil, []stream.SlotCandidate{w("a1", "a", 0), w("a2", "a", 1), w("b1", "b", 2)}, "a1 b1"},
		{"what is in use counts", Caps{5, 1}, map[sluice.Org]int{"a": 1}, []stream.SlotCandidate{w("a1", "a", 0), w("b1", "b", 2)}, "b1"},
		{"an org's own cap", Caps{5, 1}, nil, []stream.SlotCandidate{
			w("a1", "a", 0, func(c *stream.SlotCandidate) { c.OrgCap = &two }), w("a2", "a", 1, func(c *stream.SlotCandidate) { c.OrgCap = &two }),
		}, "a1 a2"},
		{"resumed before new, priority before age", Caps{3, 9}, nil, []stream.SlotCandidate{
			w("a", "a", 0), w("b", "b", 1, func(c *stream.SlotCandidate) { c.Priority = 5 }), w("c", "c", 2, func(c *stream.SlotCandidate) { c.Resumed = true }),
		}, "c b a"},
		{"nothing free", Caps{1, 1}, map[sluice.Org]int{"x": 3}, []stream.SlotCandidate{w("a", "a", 0)}, ""},
	} {
		var got []string
		for _, g := range Grant(c.caps, c.used, c.waiting) {
			got = append(got, g.PlanID)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	var got []string
	for n := int64(1); n < 9; n++ {
		got = append(got, Backoff(n, 0.5).String())
	}
	if !slices.Equal(got, []string{"30s", "1m0s", "2m0s", "4m0s", "8m0s", "16m0s", "30m0s", "30m0s"}) {
		t.Fatal(got)
	}
	if Backoff(1, 0) != 24*time.Second || Backoff(1, 1) != 36*time.Second {
		t.Fatal(Backoff(1, 0), Backoff(1, 1))
	}
}
