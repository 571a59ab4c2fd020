package main

import (
	"fmt"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// progress shows how far something is: a bar on a terminal, else a line whenever it has changed and time has passed.
type progress struct {
	out   *output
	title string
	pool  *mpb.Progress
	bar   *mpb.Bar
	last  time.Time
	done  int64
	total int64
}

// lineEvery keeps logs short where there is no terminal.
const lineEvery = 2 * time.Second

func newProgress(out *output, title string) *progress {
	p := &progress{out: out, title: title, done: -1}
	if out.terminal {
		p.pool = mpb.New(mpb.WithOutput(out.errw), mpb.WithWidth(40))
		p.bar = p.pool.AddBar(0, mpb.PrependDecorators(decor.Name(title+" "), decor.CountersNoUnit("%d / %d")),
			mpb.AppendDecorators(decor.Percentage(), decor.Elapsed(decor.ET_STYLE_GO, decor.WC{W: 6})))
	}
	return p
}

// set says how much of it is done.
func (p *progress) set(done, total int64) {
	if p.bar != nil {
		p.bar.SetTotal(total, false)
		p.bar.SetCurrent(done)
		return
	}
	changed := done != p.done || total != p.total
	if changed && (time.Since(p.last) >= lineEvery || total > 0 && done == total) {
		p.out.note("%s: %d of %d", p.title, done, total)
		p.done, p.total, p.last = done, total, time.Now()
	}
}

// end leaves the terminal in order.
func (p *progress) end() {
	if p.bar != nil {
		p.bar.EnableTriggerComplete()
		p.bar.Abort(false)
		p.pool.Wait()
	}
}

// note prints a line without breaking the bar.
func (p *progress) note(format string, args ...any) {
	if p.pool != nil {
		_, _ = fmt.Fprintf(p.pool, format+"\n", args...)
		return
	}
	p.out.note(format, args...)
}
