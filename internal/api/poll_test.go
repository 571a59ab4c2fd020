package api_test

import (
	"path/filepath"
	"testing"

	"sluice/internal/api"
	"sluice/internal/api/client"
	"sluice/internal/control"
	"sluice/internal/sluice"
)

// A poller keeps the last good answer through an outage of the state DB, and sees a deletion by absence afterwards.
func TestPollerKeepsTheLastGoodAnswer(t *testing.T) {
	t.Parallel()
	dsn := filepath.Join(t.TempDir(), "state.db")
	h := houseOn(t, openState(t, dsn), withTokens())
	poller := client.NewDiscovery(client.InProcess(h.api).WithToken(discoverySecret))
	if _, ok := poller.Last(); ok {
		t.Error("there is an answer before the first")
	}
	poll := func(want bool) control.Discovery {
		t.Helper()
		changed, err := poller.Poll(t.Context())
		if err != nil || changed != want {
			t.Errorf("changed %t, %v", changed, err)
		}
		last, _ := poller.Last()
		return last
	}
	first := poll(true)
	if len(first.Warehouses) != 1 || len(first.Warehouses[0].Teams) != 2 {
		t.Fatalf("%+v", first)
	}
	poll(false)
	if err := h.db.Close(); err != nil { // the outage
		t.Fatal(err)
	}
	if _, err := poller.Poll(t.Context()); err == nil {
		t.Error("an outage must be an error")
	}
	if last, ok := poller.Last(); !ok || len(last.Warehouses[0].Teams) != 2 {
		t.Errorf("%+v", last)
	}
	again := api.New(api.Deps{Control: control.New(openState(t, dsn)), Auth: withTokens()})
	admin := client.InProcess(again).WithToken(adminSecret)
	poller2 := client.NewDiscovery(client.InProcess(again).WithToken(discoverySecret))
	if _, err := poller2.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Patch[control.Org](t.Context(), admin, "/orgs/acme", "", api.UpdateOrg{DisplayName: api.Set("x")}); err != nil {
		t.Fatal(err)
	}
	if changed, err := poller2.Poll(t.Context()); err != nil || !changed {
		t.Error(changed, err)
	}
	last, _ := poller2.Last()
	if last.ConfigGeneration <= first.ConfigGeneration {
		t.Errorf("generation %d, before %d", last.ConfigGeneration, first.ConfigGeneration)
	}
	if _, err := client.NewDiscovery(client.InProcess(again)).Poll(t.Context()); sluice.CodeOf(err) != "SLUICE-API-LOGIN" {
		t.Error(err)
	}
}
