// Command fetch puts the pinned engine extensions into a directory, for the build. With -pack it also writes the
// compressed copies that a release binary embeds.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"sluice/internal/extension"
	"sluice/internal/sluice"
)

func main() {
	dir := flag.String("dir", "build/extensions", "directory to put the extensions into")
	pack := flag.String("pack", "", "directory for compressed copies, for builds with the tag embed_extensions")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *dir, *pack); err != nil {
		fmt.Fprintln(os.Stderr, err)
		if hint := sluice.HintOf(err); hint != "" {
			fmt.Fprintln(os.Stderr, hint)
		}
		stop()
		os.Exit(sluice.ExitCode(err))
	}
}

func run(ctx context.Context, dir, pack string) error {
	if err := extension.Install(ctx, dir, func(line string) { fmt.Println(line) }); err != nil {
		return err
	}
	if pack == "" {
		return nil
	}
	return extension.Pack(dir, pack)
}
