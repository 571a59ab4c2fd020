package load

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/lake"
	"sluice/internal/queue"
	"sluice/internal/sluice"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the expected output of the scripts")

// TestStepScripts runs testdata/step/*.txt: each file is one stream under one lease. A block is events, a line `----`, and
// the actions that follow; blocks are separated by an empty line, lines beginning with # are comments.
func TestStepScripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/step/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := runScript(t, string(raw))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(raw) {
				t.Errorf("the actions differ; got:\n%s", got)
			}
		})
	}
}

func runScript(t *testing.T, script string) string {
	t.Helper()
	m := machine{t: t, state: Begin(Limits{}, sluice.Stream{
		StreamID: "00000000-0000-0000-0000-00000000000a", TargetSchema: "team_1_data_imports", TargetTable: "flights",
	})}
	var out strings.Builder
	expecting := false
	sc := bufio.NewScanner(strings.NewReader(script))
	var actions []string
	flush := func() {
		for _, a := range actions {
			fmt.Fprintln(&out, a)
		}
		actions = nil
	}
	for sc.Scan() {
		line := sc.Text()
		switch {
		case strings.HasPrefix(line, "#"):
			fmt.Fprintln(&out, line)
		case line == "----":
			fmt.Fprintln(&out, line)
			flush()
			expecting = true
		case line == "":
			fmt.Fprintln(&out)
			expecting = false
		case !expecting:
			fmt.Fprintln(&out, line)
			if a := m.line(line); a != "" {
				actions = append(actions, a)
			}
		}
	}
	return out.String()
}

// machine drives Step from the lines of a script.
type machine struct {
	t     *testing.T
	state State
	run   sluice.Run
	batch sluice.Batch
	file  lake.File
}

type args map[string]string

func (a args) num(name string, def int64) int64 {
	v, ok := a[name]
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func columns(t *testing.T, s string) lake.Columns {
	t.Helper()
	var out lake.Columns
	for part := range strings.SplitSeq(s, ";") {
		name, typ, ok := strings.Cut(part, ":")
		if !ok {
			continue
		}
		pt, err := lake.ParseType(typ)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, lake.Column{Name: name, Type: pt})
	}
	return out
}

func (m *machine) line(line string) string {
	fields := strings.Fields(line)
	a := args{}
	for _, f := range fields[1:] {
		k, v, _ := strings.Cut(f, "=")
		a[k] = v
	}
	var e Event
	switch fields[0] {
	case "stream": // not an event: sets the stream's options
		if v := a["keys"]; v != "" {
			m.state.stream.Options.PrimaryKeys = strings.Split(v, ",")
		}
		if v := a["order"]; v != "" {
			m.state.stream.Options.CDC = &sluice.CDCOptions{OrderColumns: strings.Split(v, ",")}
		}
		if v, ok := a["target"]; ok {
			m.state.stream.TargetTable = v
		}
		m.state.stream.Options.SchemaPolicy = sluice.SchemaPolicy(a["schema_policy"])
		return ""
	case "claimed":
		c := Claimed{Warm: a["warm"] == "true"}
		if _, ok := a["seq"]; ok {
			fence := m.control(a).Fence
			c.Fence = &fence
		}
		e = c
	case "next":
		e = Next{Work: m.next(a), Cold: a["cold"] == "true"}
	case "idle":
		e = Idle{Offer: a["offer"] == "true"}
	case "lost":
		e = Lost{queue.ErrLeaseLost}
	case "opened":
		e = Opened{}
	case "bound":
		s := m.state.stream
		s.TargetTable = a["table"]
		e = Bound{s}
	case "schema_created":
		e = SchemaCreated{}
	case "control":
		e = ControlRead{Control: m.control(a)}
	case "started":
		e = Started{int(a.num("attempt", 1))}
	case "described":
		m.file = lake.File{Rows: a.num("rows", 10), Columns: columns(m.t, a["file"])}
		d := Described{File: m.file, Target: lake.Target{SchemaExists: a["schema"] != "absent"}}
		if v, ok := a["table"]; ok {
			d.Target = lake.Target{Exists: true, SchemaExists: true, TableID: 7, Columns: columns(m.t, v)}
		}
		e = d
	case "keys":
		e = KeysDescribed{lake.KeyFacts{NullRows: a.num("null", 0), DuplicateRows: a.num("duplicate", 0), BadOps: a.num("bad_ops", 0), BadOp: a["bad_op"]}}
	case "misfit":
		e = MisfitFound{a["value"]}
	case "applied":
		e = Applied{lake.Applied{FenceSeq: a.num("seq", 1), RowsWritten: a.num("rows", 10)}}
	case "resolved":
		e = Resolved{sluice.Outcome(a["outcome"]), m.control(a)}
	case "verified":
		v := Verified{}
		if n := a.num("missing", 0); n > 0 {
			v.Missing = make([]string, n)
		}
		e = v
	case "repaired":
		e = Repaired{m.control(a)}
	case "recorded":
		e = Recorded{}
		if _, ok := a["index"]; ok { // the next batch, begun in the same breath
			w := m.next(a)
			w.Batch.Attempt = int(a.num("attempt", 1))
			e = Recorded{Next: &w}
		}
	case "failed":
		f := lake.Fail(lake.Phase(a["phase"]), lake.Class(a["class"]), sluice.E(sluice.Code(a["code"]), "", "it broke", "mend it", nil))
		if o := a["outcome"]; o != "" {
			f.Outcome = sluice.Outcome(o)
		}
		e = Failed{f}
	default:
		m.t.Fatalf("unknown event %q", line)
	}
	var action Action
	m.state, action = Step(m.state, e)
	return describeAction(action)
}

func (m *machine) next(a args) queue.Work {
	m.run = sluice.Run{RunID: "r1", Seq: a.num("run", 1), SyncType: sluice.SyncType(a["sync"]), IsFirstEver: a["first_ever"] == "true"}
	m.batch = sluice.Batch{
		BatchID: sluice.BatchID("b" + a["index"]), RunID: "r1", RunSeq: m.run.Seq, BatchIndex: a.num("index", 0), Path: "/x/" + a["index"] + ".parquet",
		IsResume: a["resume"] == "true", Attempt: int(a.num("attempt", 0)), Deferrals: int(a.num("deferrals", 0)),
		ErrorCode: sluice.Code(a["error"]), LoadState: sluice.Queued,
	}
	if a["path"] == "none" {
		m.batch.Path = ""
	}
	if n := a.num("rows", -1); n >= 0 {
		m.batch.RowCount = &n
	}
	return queue.Work{Batch: m.batch, Run: m.run, PrevExecuting: a["state"] == "executing"}
}

func (m *machine) control(a args) lake.Control {
	c := lake.Control{Fence: lake.Fence{Seq: a.num("seq", 0), RunSeq: a.num("run", -1), BatchIndex: a.num("index", -1)}}
	if _, ok := a["marker"]; ok {
		c.Marker = &lake.Marker{Seq: a.num("marker", 0), Op: sluice.OpInsert, Rows: 10}
	}
	return c
}

func describeAction(a Action) string {
	switch a := a.(type) {
	case FetchNext:
		return "fetch next"
	case Open:
		if a.Wait > 0 {
			return fmt.Sprintf("open session after %s", a.Wait)
		}
		return "open session"
	case Bind:
		return "bind"
	case CreateSchema:
		return "create schema " + a.Schema
	case ReadControl:
		return "read control batch=" + string(a.BatchID)
	case Start:
		return "start batch=" + string(a.BatchID)
	case Describe:
		return fmt.Sprintf("describe file=%q table=%s", a.Path, a.Target)
	case DescribeKeys:
		return "describe keys=" + strings.Join(a.Ask.Keys, ",")
	case FindMisfit:
		return fmt.Sprintf("find misfit column=%s type=%s", a.Misfit.Column, a.Misfit.To)
	case Apply:
		return describeWrite("apply", a.Write)
	case Resolve:
		return fmt.Sprintf("resolve batch=%s seq=%d", a.Write.BatchID, a.Write.Seq)
	case Verify:
		return fmt.Sprintf("verify files seq=%d", a.Marker.Seq)
	case Repair:
		return fmt.Sprintf("repair table=%s seq=%d", a.Table, a.Marker.Seq)
	case RecordSuccess:
		out := fmt.Sprintf("record succeeded op=%s rows=%d origin=%s", a.Applied.Op, a.Applied.RowsWritten, a.Applied.Origin)
		if a.Applied.Reason != "" {
			out += " " + a.Applied.Reason
		}
		if a.Applied.Deduplicated > 0 {
			out += fmt.Sprintf(" deduplicated=%d", a.Applied.Deduplicated)
		}
		if a.GoOn {
			out += " and go on"
		}
		return out
	case RecordRetry:
		return fmt.Sprintf("record retry code=%s wait=%s counted=%v", a.Failure.Code, a.Failure.Wait, a.Failure.Counted)
	case RecordDefer:
		return fmt.Sprintf("record deferred code=%s wait=%s", a.Failure.Code, a.Failure.Wait)
	case RecordQuarantine:
		return fmt.Sprintf("record quarantine code=%s: %s", a.Failure.Code, a.Failure.Text)
	case Stop:
		s := "stop"
		if a.Rest {
			s += " and rest"
		}
		if a.Fence != nil {
			s += fmt.Sprintf(", fence at %d", a.Fence.Seq)
		}
		if a.Why != nil {
			s += ": " + a.Why.Error()
		}
		return s
	}
	return fmt.Sprintf("%T", a)
}

func describeWrite(what string, w lake.Write) string {
	s := fmt.Sprintf("%s batch=%s seq=%d pair=%d/%d op=%s", what, w.BatchID, w.Seq, w.RunSeq, w.BatchIndex, w.Change.Op)
	if len(w.Change.Keys) > 0 {
		s += " keys=" + strings.Join(w.Change.Keys, ",")
	}
	for _, c := range w.Change.Add {
		s += fmt.Sprintf(" add=%s:%s", c.Name, c.Type)
	}
	for _, c := range w.Change.Widen {
		s += fmt.Sprintf(" widen=%s:%s", c.Name, c.Type)
	}
	return s
}
