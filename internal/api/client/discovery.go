package client

import (
	"context"
	"net/http"
	"sync"

	"sluice/internal/control"
)

// Discovery follows the warehouses of a server and keeps the last good answer: what an outage, or a server whose state is
// older, cannot tell stays as it was. It is safe for use by many goroutines.
type Discovery struct {
	c    *Client
	mu   sync.Mutex
	last control.Discovery
	etag string
}

// NewDiscovery makes a Discovery; it has no answer until the first Poll that gets one.
func NewDiscovery(c *Client) *Discovery { return &Discovery{c: c} }

// Last is the last good answer; ok is false before the first.
func (d *Discovery) Last() (last control.Discovery, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.etag != ""
}

// Poll asks the server once, and tells whether there is a newer answer. After an error, and after an answer of an older
// generation, the last good one stays.
func (d *Discovery) Poll(ctx context.Context) (changed bool, err error) {
	d.mu.Lock()
	etag := d.etag
	d.mu.Unlock()
	got, status, newTag, err := callTagged[control.Discovery](ctx, d.c, http.MethodGet, "/api/v1/warehouses", nil, nil, "If-None-Match", etag)
	if err != nil || status == http.StatusNotModified {
		return false, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.etag != "" && got.ConfigGeneration <= d.last.ConfigGeneration {
		return false, nil // two answers overtook each other, or the state DB came back from a backup
	}
	d.last, d.etag = got, newTag
	return true, nil
}
