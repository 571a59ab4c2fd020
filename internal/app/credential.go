package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sluice/internal/control"
	"sluice/internal/lake"
	"sluice/internal/sluice"
)

const (
	loaderPrincipal = "loader"
	credentialTTL   = 900 * time.Second
	renewBefore     = 60 * time.Second
)

// credentials gives the loader one short-lived credential per org, minted before the one in hand ends.
type credentials struct {
	orgs   *control.Store
	flight singleflight.Group
	mu     sync.Mutex
	held   map[sluice.Org]lake.Credential
}

// Credential implements lake.Credentials.
func (c *credentials) Credential(ctx context.Context, org sluice.Org) (lake.Credential, error) {
	if held, ok := c.get(org); ok {
		return held, nil
	}
	v, err, _ := c.flight.Do(string(org), func() (any, error) {
		if held, ok := c.get(org); ok {
			return held, nil
		}
		asked := time.Now() // the state DB's clock may differ from ours: count from before the call
		m, err := c.orgs.Mint(ctx, org, loaderPrincipal, credentialTTL)
		if err != nil {
			return nil, fmt.Errorf("mint a credential of the loader for org %s: %w", org, err)
		}
		got := lake.Credential{User: m.CredentialID, Password: m.Secret, Expires: asked.Add(credentialTTL)}
		c.mu.Lock()
		c.held[org] = got
		c.mu.Unlock()
		return got, nil
	})
	if err != nil {
		return lake.Credential{}, err
	}
	return v.(lake.Credential), nil
}

// Refused implements lake.Refusals: a credential that was revoked before its end is not used up to it.
func (c *credentials) Refused(org sluice.Org, refused lake.Credential) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held[org].User == refused.User {
		delete(c.held, org)
	}
}

func (c *credentials) get(org sluice.Org) (lake.Credential, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	held, ok := c.held[org]
	return held, ok && time.Until(held.Expires) > renewBefore
}

// LoaderCredential lets the holder into an org's warehouse with the rights of a loader.
func (a *App) LoaderCredential(ctx context.Context, org sluice.Org) (lake.Credential, error) {
	return a.credentials.Credential(ctx, org)
}
