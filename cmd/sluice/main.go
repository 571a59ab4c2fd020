// Command sluice keeps DuckLake warehouses in step with their sources and serves them over the PostgreSQL protocol. Each
// command is a file of its own: its options, its flags and its run function.
package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"sluice/internal/sluice"
)

// exitInterrupted is the exit code after SIGINT.
const exitInterrupted = 130

var errInterrupted = errors.New("interrupted")

func main() {
	ctx, stop := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		if <-signals == os.Interrupt {
			stop(errInterrupted)
		} else {
			stop(context.Canceled)
		}
		<-signals // a second one does not wait for the drain
		os.Exit(exitInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], newOutput(os.Stdout, os.Stderr)))
}

// run executes a command line and gives the exit code.
func run(ctx context.Context, args []string, out *output) int {
	root := newRoot(out)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return exitInterrupted
	}
	if err == nil {
		return 0
	}
	out.fail(err)
	var code exitCode
	if errors.As(err, &code) {
		return int(code)
	}
	return sluice.ExitCode(err)
}
