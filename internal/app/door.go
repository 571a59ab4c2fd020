package app

import (
	"context"
	"os"

	"sluice/internal/api/client"
	"sluice/internal/config"
	"sluice/internal/control"
	"sluice/internal/sluice"
)

// checkSecrets refuses a discovery secret that can do more than read the warehouses: it is given to other systems.
func (a *App) checkSecrets(ctx context.Context) error {
	auth := a.cfg.HTTP.Auth
	if auth.Mode != config.AuthToken || !auth.DiscoverySecret.IsSet() {
		return nil
	}
	const doing = "open the API"
	hint := "give other systems a secret of their own"
	discovery, err := auth.DiscoverySecret.Read()
	if err != nil {
		return sluice.E("SLUICE-CONFIG", doing, "http.auth.discovery_secret cannot be read", "set it, or leave it out", err)
	}
	if auth.AdminSecret.IsSet() {
		admin, err := auth.AdminSecret.Read()
		if err != nil {
			return sluice.E("SLUICE-CONFIG", doing, "http.auth.admin_secret cannot be read", "set it, or leave it out", err)
		}
		if admin == discovery {
			return sluice.E("SLUICE-CONFIG", doing, "http.auth.discovery_secret is the same as http.auth.admin_secret", hint, nil)
		}
	}
	role, found, err := a.orgs.TokenRole(ctx, discovery)
	if err != nil {
		return err
	}
	if found && role != control.RoleDiscovery {
		return sluice.E("SLUICE-CONFIG", doing, "http.auth.discovery_secret is a token with the role "+string(role), hint, nil)
	}
	return nil
}

// NewClient makes a client of a server with the configuration's token. The certificate of http.tls, if it can be read here,
// is trusted beside the system's.
func NewClient(cfg *config.Config, url string) (*client.Client, error) {
	c := client.New(url)
	if cfg.HTTP.TLS.On() {
		if pem, err := os.ReadFile(cfg.HTTP.TLS.Cert); err == nil {
			if c, err = client.NewTrusting(url, pem); err != nil {
				return nil, err
			}
		}
	}
	if !cfg.Token.IsSet() {
		return c, nil
	}
	token, err := cfg.Token.Read()
	if err != nil {
		return nil, sluice.E("SLUICE-CONFIG", "call the server", "the token cannot be read", "set SLUICE_TOKEN", err)
	}
	return c.WithToken(token), nil
}
