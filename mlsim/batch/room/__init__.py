"""What jobs take units of: a pool of equal units, or nodes x resources. It uses the columns and fairshare."""
