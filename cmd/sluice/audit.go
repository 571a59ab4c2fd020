package main

import (
	"context"

	"github.com/spf13/cobra"

	"sluice/internal/api"
	"sluice/internal/control"
)

func newAuditCommand(out *output) *cobra.Command {
	var org string
	var limit int
	c := &cobra.Command{Use: "audit", Short: "Show who changed what, newest first", Example: "  sluice audit --org acme --limit 20", Args: noArguments}
	addOrg(c.Flags(), &org)
	c.Flags().IntVar(&limit, "limit", 50, "most rows to show")
	return onServer(c, out, func(ctx context.Context, s *server, _ []string) error {
		rows, err := pages(ctx, s, "/audit", query("org", org), limit, func(p api.AuditLog) ([]control.AuditRow, string) { return p.Audit, p.NextCursor })
		if err != nil {
			return err
		}
		return out.result(api.AuditLog{Audit: rows}, func() {
			var lines [][]string
			for _, r := range rows {
				lines = append(lines, []string{stamp(&r.At), r.Who, r.Action, string(r.Org), r.Object})
			}
			out.table([]string{"AT", "WHO", "ACTION", "ORG", "OBJECT"}, lines)
		})
	})
}
