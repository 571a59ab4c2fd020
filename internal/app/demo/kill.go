package demo

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/sluice"
)

// loader is a loader in a process of its own.
type loader struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once the process has ended
	err  error         // how it ended; read after done
}

// startLoader starts a loader for the demo's data directory. Its lease is short: the demo should not wait a minute for the
// one of the process that it kills.
func startLoader(ctx context.Context, exe string, a *app.App, cfg *config.Loaded) (*loader, error) {
	log, err := os.OpenFile(filepath.Join(cfg.Data, "loader.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the loader's log: %w", err)
	}
	settings := filepath.Join(cfg.Data, "loader.yaml")
	text := fmt.Sprintf("data: %q\nroles: [loader]\nlog: {format: json}\nloader:\n  warehouse: %q\n  poll: 100ms\n  lease: {ttl: 3s, heartbeat: 1s}\n", cfg.Data, a.WarehouseAddr())
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the loader's configuration: %w", err)
	}
	l := &loader{cmd: exec.CommandContext(context.WithoutCancel(ctx), exe, "serve", "--config", settings), done: make(chan struct{})}
	l.cmd.Env = config.EnvironWithoutOurs()
	l.cmd.Stderr = log
	l.cmd.SysProcAttr = dieWithParent()
	started := make(chan error, 1)
	go func() {
		defer func() { _ = log.Close() }()
		// The signal at the parent's death is bound to the thread that forks: this goroutine keeps it.
		runtime.LockOSThread()
		err := l.cmd.Start()
		started <- err
		if err == nil {
			l.err = l.cmd.Wait()
		}
		close(l.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start the loader: %w", err)
	}
	return l, nil
}

func (l *loader) pid() int { return l.cmd.Process.Pid }

// signal sends sig and waits for the end of the process.
func (l *loader) signal(sig syscall.Signal) {
	_ = l.cmd.Process.Signal(sig) // it may have ended
	<-l.done
}

// progress is how far the loading is, and what is in the middle of being applied.
type progress struct {
	applied, open int64
	executing     api.Batch // zero: none
}

func look(ctx context.Context, c *client.Client, ours map[sluice.BatchID]bool) (progress, error) {
	page, err := client.Get[api.Batches](ctx, c, "/batches", url.Values{"org": {Org}, "limit": {"1000"}})
	if err != nil {
		return progress{}, err
	}
	var p progress
	for _, b := range page.Batches {
		if !ours[b.BatchID] { // a step of the history's run
			if b.LoadState == sluice.Executing {
				p.executing = b
			}
			if b.LoadState == sluice.Succeeded || b.LoadState == sluice.Executing {
				continue
			}
		}
		switch b.LoadState {
		case sluice.Succeeded:
			p.applied++
			continue
		case sluice.Executing:
			p.executing = b
		case sluice.Quarantined, sluice.Failed, sluice.Superseded:
			return p, sluice.E("SLUICE-DEMO-MISMATCH", "load the sample", fmt.Sprintf("batch %s is %s: %s %s", b.BatchID, b.LoadState, b.ErrorCode, b.ErrorText),
				"see sluice quarantine list with --data of the demo", nil)
		case sluice.Queued, sluice.RetryWait:
		}
		p.open++
	}
	return p, nil
}

// reportUpstream plays the producer of the batches that are newer than the history: their commits can be seen from now on.
func reportUpstream(ctx context.Context, c *client.Client, batches []batch) error {
	for _, b := range batches {
		if b.stream != "flights" || b.inHistory {
			continue
		}
		if _, err := client.Patch[api.Batch](ctx, c, b.route, "", api.Upstream{UpstreamState: string(sluice.UpstreamSucceeded)}); err != nil {
			return err
		}
	}
	return nil
}

// loadAndKill loads all batches; once some are applied it kills the loader in the middle of the history, and starts another.
func loadAndKill(ctx context.Context, c *client.Client, a *app.App, cfg *config.Loaded, o Options, streams map[string]api.Stream, batches []batch) (Kill, error) {
	total, ours, reported := int64(len(batches)), map[sluice.BatchID]bool{}, false
	for _, b := range batches {
		ours[b.id] = true
	}
	l, err := startLoader(ctx, o.Executable, a, cfg)
	if err != nil {
		return Kill{}, err
	}
	defer func() { l.signal(syscall.SIGTERM) }()
	kill := Kill{PID: l.pid()}
	for {
		p, err := look(ctx, c, ours)
		if err != nil {
			return kill, err
		}
		o.Progress(p.applied, total)
		caught := p.executing.StreamID == streams["flights"].StreamID && (p.executing.Op == sluice.OpInsert || p.applied >= total-2)
		if st, err := client.Get[api.Stream](ctx, c, "/streams/"+string(streams["flights"].StreamID), nil); err != nil {
			return kill, err
		} else if st.Lifecycle == sluice.Primed && !reported {
			if err := reportUpstream(ctx, c, batches); err != nil {
				return kill, err
			}
			reported = true
		}
		if kill.NextPID == 0 && p.open > 0 && (caught || p.applied >= total-1) {
			l.signal(syscall.SIGKILL)
			kill.After, kill.Executing = p.applied, p.executing.BatchID
			if kill.Executing != "" {
				kill.Stream = "flights"
			}
			o.Note("the loader (pid %d) is killed with SIGKILL after %d of %d batches", kill.PID, p.applied, total)
			if l, err = startLoader(ctx, o.Executable, a, cfg); err != nil {
				return kill, err
			}
			kill.NextPID = l.pid()
			o.Note("another loader (pid %d) goes on once the lease of the first has ended", kill.NextPID)
		}
		if p.applied == total {
			return kill, nil
		}
		select {
		case <-l.done:
			return kill, sluice.E("SLUICE-DEMO-MISMATCH", "load the sample", "the loader has ended", "see "+filepath.Join(cfg.Data, "loader.log"), l.err)
		default:
		}
		if err := sleep(ctx); err != nil {
			return kill, fmt.Errorf("wait for the batches: %w", err)
		}
	}
}
