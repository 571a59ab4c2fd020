package action_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/internal/delta/action"
	"sluice/internal/sluice"
)

// replay gives the live files, `location` or `location dv`, of commits, of which the first is the newest: `+a`, `-a`,
// `+a dv`, `p` and `m`. A commit of `|` begins the checkpoint.
func replay(lenient bool, commits ...string) ([]string, error) {
	r := action.NewReplay()
	r.Lenient = lenient
	live := []string{}
	inCheckpoint := false
	for _, commit := range commits {
		if commit == "|" {
			inCheckpoint = true
			continue
		}
		r.Commit()
		for a := range strings.FieldsSeq(commit) {
			location, dv, _ := strings.Cut(a[1:], ":")
			var isLive bool
			var err error
			switch {
			case a == "p":
				err = r.Protocol()
			case a == "m":
				err = r.Metadata()
			case a[0] == '-':
				err = r.Removed(location, dv)
			case inCheckpoint:
				isLive, err = r.Checkpointed(location, dv)
			default:
				isLive, err = r.Added(location, dv)
			}
			if err != nil {
				return nil, err
			}
			if isLive {
				live = append(live, a[1:])
			}
		}
	}
	slices.Sort(live)
	return live, nil
}

func TestCase22_OneCommit(t *testing.T) {
	t.Parallel()
	for _, commits := range [][]string{
		{"-a:x +a:y", "+a:x"},
		{"+a:y -a:x", "+a:x"},
		{"-a +a:y", "+a"},
		{"+a:y -a", "+a"},
		{"-a:x +a:y", "|", "+a:x"},
		{"+a:y -a", "|", "+a"},
	} {
		if live, err := replay(false, commits...); err != nil || !slices.Equal(live, []string{"a:y"}) {
			t.Errorf("%q: %q, %v", commits, live, err)
		}
	}
	for _, c := range []struct {
		commit  string
		lenient bool // the commit is read if asked to be lenient
	}{{"+a +a", false}, {"-a -a", false}, {"+a -a", false}, {"+a:x +a:x", false}, {"+a +a:x", false}, {"p p", true}, {"m m", true}} {
		if live, err := replay(false, c.commit); sluice.CodeOf(err) != action.CodeLogCorrupt {
			t.Errorf("%s: %q, %v", c.commit, live, err)
		}
		if _, err := replay(true, c.commit); (err == nil) != c.lenient {
			t.Errorf("%s, lenient: %v", c.commit, err)
		}
	}
	// The same in a commit whose files have been removed since.
	if live, err := replay(false, "-a", "+a +a"); err == nil {
		t.Errorf("twice in an old commit: %q", live)
	}
	if live, err := replay(true, "-a:x -a:y", "+a:x +a:y"); err != nil || len(live) != 0 {
		t.Errorf("two adds of a removed path, lenient: %q, %v", live, err)
	}
}

func TestCase23_TwoVectorsLiveOnOnePath(t *testing.T) {
	t.Parallel()
	for _, commits := range [][]string{
		{"+a:y", "+a:x"}, {"+a:y", "+a"}, {"+a", "+a:x"}, {"+a:y", "|", "+a:x"}, {"+a:y", "|", "+a"}, {"+a", "|", "+a:x"}, {"|", "+a:x +a:y"}, {"|", "+a:x +a"},
	} {
		if live, err := replay(true, commits...); sluice.CodeOf(err) != action.CodeLogCorrupt {
			t.Errorf("%q: %q, %v", commits, live, err)
		}
	}
}

func TestCase24_AddedAgain(t *testing.T) {
	t.Parallel()
	for _, commits := range [][]string{{"+a", "+a"}, {"+a", "-a", "+a"}, {"+a", "-a", "|", "+a"}, {"+a", "|", "+a"}, {"|", "+a"}} {
		if live, err := replay(false, commits...); err != nil || !slices.Equal(live, []string{"a"}) {
			t.Errorf("%q: %q, %v", commits, live, err)
		}
	}
	if live, err := replay(false, "-a", "+a", "|", "+a +b"); err != nil || !slices.Equal(live, []string{"b"}) {
		t.Errorf("removed: %q, %v", live, err)
	}
}

// Random histories: what is live is what a table of the oldest to the newest commit would hold, wherever the checkpoint is.
func TestReplayIsTheHistoryReadBackwards(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for round := range 300 {
		live := map[string]string{} // location → dv
		var commits []string        // oldest first
		checkpoint, at := "", -1
		for c := range 1 + rnd.IntN(12) {
			var actions []string
			for _, i := range rnd.Perm(6)[:1+rnd.IntN(4)] {
				location := fmt.Sprintf("f%d", i)
				dv, is := live[location]
				switch {
				case !is:
					live[location] = ""
					actions = append(actions, "+"+key(location, ""))
				case rnd.IntN(3) == 0:
					delete(live, location)
					actions = append(actions, "-"+key(location, dv))
				case rnd.IntN(2) == 0:
					live[location] = fmt.Sprintf("v%d", c)
					actions = append(actions, "-"+key(location, dv), "+"+key(location, live[location]))
				default: // only its statistics are new
					actions = append(actions, "+"+key(location, dv))
				}
			}
			rnd.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
			commits = append(commits, strings.Join(actions, " "))
			if rnd.IntN(4) == 0 {
				checkpoint, at = "", c
				for _, k := range keys(live) {
					checkpoint += " +" + k
				}
			}
		}
		backwards := slices.Clone(commits[at+1:])
		slices.Reverse(backwards)
		backwards = append(backwards, "|", checkpoint)
		if at < 0 {
			backwards = backwards[:len(backwards)-2]
		}
		if got, err := replay(false, backwards...); err != nil || !slices.Equal(got, keys(live)) {
			t.Fatalf("seed %d, round %d: %q, want %q; %v\n%q", seed, round, got, keys(live), err, backwards)
		}
	}
}

func key(location, dv string) string {
	if dv == "" {
		return location
	}
	return location + ":" + dv
}

func keys(live map[string]string) []string {
	list := []string{}
	for location, dv := range maps.All(live) {
		list = append(list, key(location, dv))
	}
	slices.Sort(list)
	return list
}
